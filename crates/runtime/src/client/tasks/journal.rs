//! Which tasks were begun and are not over: kept by whoever can, so that a restarted host goes on (TSK-20).

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::client::Context;

/// A task that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEntry {
    /// The server's configured name.
    pub server: String,
    /// Whose it is: no other context is ever shown it.
    pub context: Context,
    /// Its id, which is as good as a key to it.
    pub task_id: String,
    /// The tool that was called.
    pub tool: Option<String>,
    /// The call's id in the log.
    pub call_id: String,
    /// The capabilities that the call declared, one JSON object (TSK-69).
    pub capabilities: String,
    /// The keys of its questions that were answered (TSK-32).
    pub answered: BTreeSet<String>,
}

/// Where tasks are kept. Its methods may block, and are called where that is allowed.
pub trait TaskJournal: Send + Sync {
    /// A call became a task. Durable when it returns.
    ///
    /// # Errors
    /// It cannot be kept.
    fn begun(&self, entry: &TaskEntry) -> io::Result<()>;

    /// The question under this key was answered, and the server has acknowledged it. Of a task that is not kept nothing
    /// is noted.
    ///
    /// # Errors
    /// It cannot be noted.
    fn answered(&self, entry: &TaskEntry, key: &str) -> io::Result<()>;

    /// Its end was seen, or nobody wants it any more. It need not be kept.
    ///
    /// # Errors
    /// It cannot be removed.
    fn ended(&self, entry: &TaskEntry) -> io::Result<()>;

    /// All that are kept of one server and context.
    ///
    /// # Errors
    /// They cannot be read.
    fn open(&self, server: &str, context: &Context) -> io::Result<Vec<TaskEntry>>;
}

/// Keeps nothing: for hosts whose tasks need not outlive them.
#[derive(Clone, Copy, Debug)]
pub struct Forgetful;

impl TaskJournal for Forgetful {
    fn begun(&self, _entry: &TaskEntry) -> io::Result<()> {
        Ok(())
    }

    fn answered(&self, _entry: &TaskEntry, _key: &str) -> io::Result<()> {
        Ok(())
    }

    fn ended(&self, _entry: &TaskEntry) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, _server: &str, _context: &Context) -> io::Result<Vec<TaskEntry>> {
        Ok(Vec::new())
    }
}

/// Keeps each task as a small file of a folder, which only its owner can read. Each file is written whole and put in
/// place by renaming, so a crash leaves the old one or the new one; several processes may share the folder.
#[derive(Debug)]
pub struct FolderJournal {
    folder: PathBuf,
    /// One change at a time: a key is added to what is there.
    changing: Mutex<()>,
}

impl FolderJournal {
    /// Keeps them in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn at(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, changing: Mutex::new(()) })
    }

    /// Where an entry is kept: an id is no name of a file.
    fn place(&self, entry: &TaskEntry) -> PathBuf {
        let mut hash = Sha256::new();
        let Context { tenant, principal, .. } = &entry.context;
        for part in [&entry.server, tenant, principal, &entry.task_id] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name).with_extension("json")
    }

    fn write(&self, entry: &TaskEntry) -> io::Result<()> {
        let place = self.place(entry);
        // Two processes never write the same one.
        let beside = place.with_extension(format!("{}.new", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&beside)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.sync_all()?;
        fs::rename(&beside, &place)?;
        sync_folder(&self.folder)
    }

    fn read(place: &Path) -> io::Result<Option<TaskEntry>> {
        match fs::read(place) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl TaskJournal for FolderJournal {
    fn begun(&self, entry: &TaskEntry) -> io::Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(entry)
    }

    fn answered(&self, entry: &TaskEntry, key: &str) -> io::Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut kept) = Self::read(&self.place(entry))? else { return Ok(()) };
        kept.answered.insert(key.to_owned());
        self.write(&kept)
    }

    fn ended(&self, entry: &TaskEntry) -> io::Result<()> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::remove_file(self.place(entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn open(&self, server: &str, context: &Context) -> io::Result<Vec<TaskEntry>> {
        let mut entries = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            let place = file?.path();
            if place.extension().is_some_and(|extension| extension == "json")
                // One that ended meanwhile is gone.
                && let Some(entry) = Self::read(&place)?
                && entry.server == server
                && entry.context == *context
            {
                entries.push(entry);
            }
        }
        entries.sort_by(|one, other| one.task_id.cmp(&other.task_id));
        Ok(entries)
    }
}

/// Makes a rename durable, where folders can be synchronised.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(principal: &str, id: &str) -> TaskEntry {
        TaskEntry {
            server: "shop".to_owned(),
            context: Context { principal: principal.to_owned(), ..Context::default() },
            task_id: id.to_owned(),
            tool: Some("charge".to_owned()),
            call_id: "c-1".to_owned(),
            capabilities: "{}".to_owned(),
            answered: BTreeSet::new(),
        }
    }

    // shows: TSK-32, I-17
    #[test]
    fn tsk_20_a_folder_keeps_tasks_over_a_restart_and_shows_them_to_their_own_context_only() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FolderJournal::at(folder.path().join("tasks")).unwrap();
        let (ann, other, ben) = (entry("ann", "../../t/1"), entry("ann", "t2"), entry("ben", "../../t/1"));
        for one in [&ann, &other, &ben] {
            open().begun(one).unwrap();
        }
        open().answered(&ann, "k1").unwrap();
        open().answered(&ann, "k2").unwrap();
        open().ended(&other).unwrap();
        open().ended(&other).unwrap();
        open().answered(&other, "k").unwrap();
        let kept = open().open("shop", &ann.context).unwrap();
        let answered = ["k1".to_owned(), "k2".to_owned()].into();
        assert_eq!(kept, [TaskEntry { answered, ..ann.clone() }]);
        assert_eq!(open().open("shop", &ben.context).unwrap(), [ben]);
        assert_eq!(open().open("bank", &ann.context).unwrap(), []);
        #[cfg(unix)]
        for file in fs::read_dir(folder.path().join("tasks")).unwrap() {
            let mode = std::os::unix::fs::MetadataExt::mode(&file.unwrap().metadata().unwrap());
            assert_eq!(mode & 0o077, 0, "nobody else reads it");
        }
    }
}
