//! Store URLs on the command line.

use std::path::PathBuf;

use crate::exit::{Code, Failure};

/// The file of `sqlite:PATH`, or of a plain path.
pub(crate) fn path(url: &str) -> Result<PathBuf, Failure> {
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => Ok(path.into()),
        Some((scheme, _)) if scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_lowercase()) => {
            let sentence =
                format!("a store of kind {scheme:?} is not served by this version; write sqlite:PATH");
            Err(Failure::new(Code::Usage, sentence))
        }
        _ => Ok(url.into()),
    }
}
