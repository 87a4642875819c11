//! What can be known of a command before it is started.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::{ClientError, Command};

/// The file that a command names, found and fit to be run.
#[derive(Debug)]
pub(in crate::client) struct Checked(PathBuf);

impl Checked {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Finds the program as the child's own environment would have it found.
///
/// # Errors
/// There is no such file, it is none that can be run, or the directory to run in is none.
pub(in crate::client) fn check(command: &Command) -> Result<Checked, ClientError> {
    find(command).map(Checked).map_err(|(kind, why)| ClientError::Spawn {
        command: command.program.to_string_lossy().into_owned(),
        source: io::Error::new(kind, why),
    })
}

type Refused = (io::ErrorKind, String);

fn find(command: &Command) -> Result<PathBuf, Refused> {
    let refuse = |kind, why: String| Err((kind, why));
    let here = std::env::current_dir().unwrap_or_default();
    let cwd = command.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd));
    if !cwd.is_dir() {
        return refuse(
            io::ErrorKind::NotADirectory,
            format!("{} is no directory to run it in", cwd.display()),
        );
    }
    let program = command.program.as_os_str();
    if program.is_empty() || program.as_bytes().contains(&0) {
        return refuse(io::ErrorKind::InvalidInput, "the program has no name".to_owned());
    }
    if program.as_bytes().contains(&b'/') {
        let path = cwd.join(program);
        return fit(&path).map(|()| path);
    }
    let given = command.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let path = given.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
    let mut unfit = None;
    for folder in std::env::split_paths(&path) {
        let candidate = cwd.join(folder).join(program);
        match fit(&candidate) {
            Ok(()) => return Ok(candidate),
            // As a shell does: one that cannot be run does not hide one that can.
            Err(refused) if refused.0 != io::ErrorKind::NotFound => unfit = unfit.or(Some(refused)),
            Err(_) => {}
        }
    }
    Err(unfit.unwrap_or_else(|| (io::ErrorKind::NotFound, not_on_path(program))))
}

fn not_on_path(program: &OsStr) -> String {
    if program.as_bytes().contains(&b' ') {
        "no file of that name is on its PATH, and no shell takes it apart: arguments stand on their own"
            .to_owned()
    } else {
        "no file of that name is on its PATH".to_owned()
    }
}

fn fit(path: &Path) -> Result<(), Refused> {
    let refuse = |kind, why: &str| Err((kind, format!("{} {why}", path.display())));
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            refuse(error.kind(), "is in a directory that may not be entered")
        }
        Err(_) => refuse(io::ErrorKind::NotFound, "does not exist"),
        Ok(data) if !data.is_file() => refuse(io::ErrorKind::InvalidInput, "is no file"),
        Ok(_) if rustix::fs::access(path, Access::EXEC_OK).is_err() => {
            refuse(io::ErrorKind::PermissionDenied, "is not executable")
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn command(program: impl Into<std::ffi::OsString>) -> Command {
        Command { program: program.into(), args: Vec::new(), env: Vec::new(), cwd: None }
    }

    #[test]
    fn g12_a_command_is_found_as_the_child_would_find_it_or_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, mode) in [("tool", 0o755), ("text", 0o644)] {
            std::fs::write(at(name), "#!/bin/true\n").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(at("folder")).unwrap();
        let found = |command: &Command| find(command).map_err(|(_, why)| why);

        let path = vec![("PATH".into(), folder.path().into())];
        let named = Command { env: path.clone(), ..command("tool") };
        assert_eq!(found(&named), Ok(at("tool")));
        assert_eq!(found(&command(at("tool"))), Ok(at("tool")));
        let relative = Command { cwd: Some(folder.path().into()), ..command("./tool") };
        assert_eq!(found(&relative), Ok(at("./tool")));

        for (command, says) in [
            (command("tool"), "on its PATH"),
            (Command { env: path.clone(), ..command("tool --flag") }, "no shell"),
            (Command { env: path.clone(), ..command("text") }, "not executable"),
            (Command { env: path, ..command("folder") }, "is no file"),
            (command(at("absent")), "does not exist"),
            (command(folder.path()), "is no file"),
            (command(""), "no name"),
            (Command { cwd: Some(at("absent")), ..command(at("tool")) }, "no directory"),
        ] {
            let why = found(&command).unwrap_err();
            assert!(why.contains(says), "{command:?}: {why}");
            let sentence = check(&command).unwrap_err().to_string();
            assert!(sentence.contains(&why), "{sentence}");
        }
    }
}
