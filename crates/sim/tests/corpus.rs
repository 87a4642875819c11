//! The corpus of every fuzz target, replayed: what was found once is tried for ever.

use std::fs;
use std::path::Path;

use steadfast_sim::fuzz::TARGETS;

#[test]
fn i_27_every_corpus_file_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, body) in TARGETS {
        let folder = corpus.join(target);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut ran = 0;
        for file in files {
            let file = file.unwrap().path();
            let bytes = fs::read(&file).unwrap();
            // Shown when the body panics.
            eprintln!("{}", file.display());
            body(&bytes);
            ran += 1;
        }
        eprintln!("{target}: {ran} files");
        assert!(ran > 0, "no file of {target} ran");
    }
}
