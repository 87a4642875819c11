//! Which files are taken for a store, and how a new one comes to be.

use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use steadfast_core::ijson::Document;
use steadfast_store::{Ledger, OpenError, Options};

#[test]
fn ruling_10_of_many_that_open_one_new_file_at_once_all_find_it_whole() {
    for round in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("l.db");
        let barrier = Barrier::new(4);
        let fingerprints: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                barrier.wait();
                let ledger = Ledger::open(&path, Options::default()).unwrap();
                ledger.fingerprint("charge", &Document::empty_object())
            };
            let threads = [(); 4].map(|()| scope.spawn(open));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(fingerprints.iter().all(|it| *it == fingerprints[0]), "one secret in round {round}");
    }
}

#[test]
fn d_13_a_file_with_a_second_name_is_refused_and_a_symbolic_link_is_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let [path, link, alias] = ["l.db", "hard.db", "soft.db"].map(|name| folder.path().join(name));
    let ours = Ledger::open(&path, Options::default()).unwrap();
    std::os::unix::fs::symlink(&path, &alias).unwrap();
    let theirs = Ledger::open(&alias, Options::default()).unwrap();
    let print = |ledger: &Ledger| ledger.fingerprint("charge", &Document::empty_object());
    assert_eq!(print(&theirs), print(&ours));
    std::fs::hard_link(&path, &link).unwrap();
    for name in [&path, &link, &alias] {
        let refused = Ledger::open(name, Options::default()).err();
        assert!(matches!(refused, Some(OpenError::SeveralNames(_))), "{refused:?}");
    }
}

#[test]
fn a_new_store_and_its_log_are_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let _ledger = Ledger::open(&path, Options::default()).unwrap();
    for name in ["l.db", "l.db-wal", "l.db-shm"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Whoever copies the file alone after an orderly end must have everything.
#[test]
fn d_13_an_orderly_end_leaves_all_of_it_in_the_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l.db");
    let ledger = Ledger::open(&path, Options::default()).unwrap();
    let tasks = ledger.tasks();
    ledger.prepare("CREATE TABLE t (x)").unwrap();
    drop((ledger, tasks));
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(files, ["l.db"]);
}
