//! The log of this user's calls, which `steadfast explain` reads: where it is.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use steadfast_store::CallLog;

use crate::exit::{Code, Failure};

/// How many attempts are kept: some 10 MB.
const KEPT: u32 = 20_000;

/// The file in the user's state directory, as the XDG Base Directory Specification has it.
pub(crate) fn path() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map(|state| state.join("steadfast/calls.db")).ok_or_else(|| {
        Failure::new(
            Code::Usage,
            "there is no state directory; set HOME or XDG_STATE_HOME to an absolute path",
        )
    })
}

/// The log to add to; its folder is made, for this user alone.
pub(crate) fn open() -> Result<Arc<CallLog>, Failure> {
    let path = path()?;
    if let Some(folder) = path.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| {
            Failure::new(
                Code::Usage,
                format!("the folder {folder:?} of the call log cannot be made: {error}"),
            )
        })?;
    }
    Ok(Arc::new(CallLog::open(path, KEPT)?))
}
