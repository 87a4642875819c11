//! The one writer of a child's stdin: whole lines, one after another (STD-25).

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Why nothing more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The child took no byte for as long as it may.
    Wedged(Duration),
    /// It closed its stdin.
    Closed,
}

/// Writes until the last sender is gone, and closes the child's stdin. Who waits for an answer never stops it, so no
/// line is left half (F025): it ends only with the connection.
pub(super) async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
    stall: Duration,
) -> Result<(), Broken> {
    while let Some(line) = lines.recv().await {
        let mut rest = &line[..];
        while !rest.is_empty() {
            match tokio::time::timeout(stall, stdin.write(rest)).await {
                Ok(Ok(0) | Err(_)) => return Err(Broken::Closed),
                Ok(Ok(taken)) => rest = &rest[taken..],
                Err(_) => return Err(Broken::Wedged(stall)),
            }
        }
        // What buffers may keep nothing back.
        match tokio::time::timeout(stall, stdin.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(Broken::Closed),
            Err(_) => return Err(Broken::Wedged(stall)),
        }
    }
    // A pipe closes when it is dropped, a socket's half does not.
    let _ = tokio::time::timeout(stall, stdin.shutdown()).await;
    Ok(())
}

/// Leaves a line to be written and never waits: a child that does not read must not hold up whoever gave up on it.
pub(super) fn leave(writer: mpsc::Sender<Bytes>, line: Bytes) {
    // At once where there is a place, so that the order is the order of the calls.
    if let Err(mpsc::error::TrySendError::Full(line)) = writer.try_send(line) {
        tokio::spawn(async move { writer.send(line).await });
    }
}
