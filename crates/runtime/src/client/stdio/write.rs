//! The one writer of a child's stdin: whole lines, one after another (STD-25).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
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

/// Lines that wait together leave together, up to so many bytes: one write and one wake of the child for all of them.
const TOGETHER: usize = 64 << 10;

/// Writes until the last sender is gone, and closes the child's stdin. Who waits for an answer never stops it, so no
/// line is left half (F025): it ends only with the connection.
pub(super) async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
    stall: Duration,
) -> Result<(), Broken> {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(line) => line,
            None => match lines.recv().await {
                Some(line) => line,
                None => break,
            },
        };
        let (together, left) = gather(first, &mut lines);
        next = left;
        let mut rest = &together[..];
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

/// A line with those that wait behind it, and the first for which there is no more room.
fn gather(first: Bytes, lines: &mut mpsc::Receiver<Bytes>) -> (Bytes, Option<Bytes>) {
    let Ok(second) = lines.try_recv() else { return (first, None) };
    if first.len() + second.len() > TOGETHER {
        return (first, Some(second));
    }
    let mut together = BytesMut::from(first);
    together.extend_from_slice(&second);
    while let Ok(line) = lines.try_recv() {
        if together.len() + line.len() > TOGETHER {
            return (together.freeze(), Some(line));
        }
        together.extend_from_slice(&line);
    }
    (together.freeze(), None)
}

/// Leaves a line to be written and never waits: a child that does not read must not hold up whoever gave up on it.
pub(super) fn leave(writer: mpsc::Sender<Bytes>, line: Bytes) {
    // At once where there is a place, so that the order is the order of the calls.
    if let Err(mpsc::error::TrySendError::Full(line)) = writer.try_send(line) {
        tokio::spawn(async move { writer.send(line).await });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn std_25_lines_that_wait_together_leave_together_whole_and_in_order() {
        for sizes in [[10, 10, 10], [TOGETHER, 10, 10], [10, TOGETHER - 20, 10], [10, TOGETHER, 3 * TOGETHER]]
        {
            let lines = sizes.map(|size| Bytes::from(format!("{}\n", "x".repeat(size - 1))));
            let (sender, mut receiver) = mpsc::channel(8);
            for line in &lines {
                leave(sender.clone(), line.clone());
            }
            let mut next = Some(receiver.recv().await.unwrap());
            let mut written = Vec::new();
            while let Some(first) = next.take() {
                let alone = first.len();
                let (together, left) = gather(first, &mut receiver);
                assert!(together.len() <= TOGETHER || together.len() == alone, "{sizes:?}");
                written.extend_from_slice(&together);
                next = left.or_else(|| receiver.try_recv().ok());
            }
            assert_eq!(written, lines.concat(), "{sizes:?}");
        }
    }
}
