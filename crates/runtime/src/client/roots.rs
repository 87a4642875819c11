//! Roots: the directories that a host lends to a server, and whether a `file:` URI stays within them (D-41).

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use steadfast_core::catalog::Changes;
use steadfast_core::object::Members;

use super::handler::{Answering, Handler, Question};
use crate::percent;

/// What one client lends to its server: directories below those that the operator allows. Each authorization context
/// has its own, so that nothing is lent across tenants.
///
/// A path is looked at as it is on the disk at that moment, symbolic links followed, and again at every use: what was
/// inside may have become a link to the outside since. Whoever opens a file later must still open the resolved path
/// and no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// Resolved, so that a link among the allowed directories is no way out.
    allowed: Vec<PathBuf>,
    lent: Vec<Lent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Lent {
    path: PathBuf,
    name: Option<String>,
}

/// Why a URI is no root, or lies within none. No error repeats the path: it may be private.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// It is no absolute `file:` URI of this machine.
    #[error("the URI is no file: URI of this machine; write it as file:///DIRECTORY")]
    NoFileUri,
    /// It climbs.
    #[error("the URI climbs by .. or hides a separator; write the path that is meant")]
    Climbs,
    /// There is nothing, or nothing that may be looked at.
    #[error("the URI names nothing that can be read here; check that it exists")]
    Missing,
    /// A root that is no directory.
    #[error("a root is a directory, and this is none; name the directory that holds it")]
    NoDirectory,
    /// It is elsewhere, perhaps by a symbolic link.
    #[error(
        "the URI leads out of the directories that are allowed here; allow its directory, or use another"
    )]
    Outside,
}

impl Roots {
    /// Nothing is lent yet; what is lent later must lie within `allowed`.
    ///
    /// # Errors
    /// One of the allowed directories is not there.
    pub fn within<P: AsRef<Path>>(allowed: &[P]) -> Result<Self, RootError> {
        let allowed: Result<Vec<_>, _> = allowed.iter().map(|path| resolved(path.as_ref())).collect();
        let allowed = allowed?;
        if allowed.iter().any(|path| !path.is_dir()) {
            return Err(RootError::NoDirectory);
        }
        Ok(Self { allowed, lent: Vec::new() })
    }

    /// Lends a directory, by its `file:` URI; `name` is what people read.
    ///
    /// # Errors
    /// The URI is none of this machine, climbs, names no directory, or leads out of what is allowed.
    pub fn lend(&mut self, uri: &str, name: Option<&str>) -> Result<(), RootError> {
        let path = inside(&path_of(uri)?, &self.allowed)?;
        if !path.is_dir() {
            return Err(RootError::NoDirectory);
        }
        self.lent.push(Lent { path, name: name.map(str::to_owned) });
        Ok(())
    }

    /// The path that a `file:` URI stands for, if it lies within a directory that is lent. Roots are where a server is
    /// asked to stay; this is how the host checks what the server names.
    ///
    /// # Errors
    /// As [`Self::lend`], but for the directory.
    pub fn resolve(&self, uri: &str) -> Result<PathBuf, RootError> {
        let path = path_of(uri)?;
        let lent: Vec<PathBuf> = self.standing().map(|lent| lent.path.clone()).collect();
        inside(&path, &lent)
    }

    /// Whether nothing is lent.
    pub const fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    /// Those that still are what they were when they were lent.
    fn standing(&self) -> impl Iterator<Item = &Lent> {
        self.lent.iter().filter(|lent| fs::canonicalize(&lent.path).is_ok_and(|now| now == lent.path))
    }

    /// A `ListRootsResult`.
    fn to_result(&self) -> String {
        let roots: Vec<_> = self
            .standing()
            .filter_map(|lent| {
                let uri = format!("file://{}", percent::encode_path(lent.path.to_str()?));
                Some(match &lent.name {
                    Some(name) => json!({ "uri": uri, "name": name }),
                    None => json!({ "uri": uri }),
                })
            })
            .collect();
        json!({ "roots": roots }).to_string()
    }
}

/// The path of a `file:` URI; it need not exist.
fn path_of(uri: &str) -> Result<PathBuf, RootError> {
    let scheme = uri.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let rest = scheme.map(|_| &uri[5..]).ok_or(RootError::NoFileUri)?;
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.find('/').map(|at| rest.split_at(at)).ok_or(RootError::NoFileUri)?;
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(RootError::NoFileUri);
            }
            path
        }
        None => rest,
    };
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(RootError::NoFileUri);
    }
    // Segment by segment: a separator that is written as %2F would be none in one reading and one in another.
    let mut whole = PathBuf::from("/");
    for segment in path.split('/') {
        let segment = percent::decode(segment).ok_or(RootError::NoFileUri)?;
        if segment.contains(['/', '\\', '\0']) {
            return Err(RootError::Climbs);
        }
        match Path::new(&segment).components().next() {
            Some(Component::ParentDir) => return Err(RootError::Climbs),
            Some(Component::Normal(_)) => whole.push(segment),
            Some(Component::CurDir | Component::RootDir | Component::Prefix(_)) | None => {}
        }
    }
    Ok(whole)
}

fn resolved(path: &Path) -> Result<PathBuf, RootError> {
    fs::canonicalize(path).map_err(|_| RootError::Missing)
}

/// The path as it is on the disk, if it lies within one of the directories. That something outside does not exist is
/// not told: it would be a way to look around.
fn inside(path: &Path, directories: &[PathBuf]) -> Result<PathBuf, RootError> {
    let within = |path: &Path| directories.iter().any(|directory| path.starts_with(directory));
    match resolved(path) {
        Ok(real) if within(&real) => Ok(real),
        Err(missing) if within(path) => Err(missing),
        Ok(_) | Err(_) => Err(RootError::Outside),
    }
}

/// A host that lends roots: it declares and answers `roots/list` itself, whatever its handler does of the rest.
pub(super) struct Lending {
    pub(super) handler: Arc<dyn Handler>,
    pub(super) roots: Roots,
}

impl Handler for Lending {
    fn capabilities(&self) -> String {
        let declared = self.handler.capabilities();
        let mut capabilities = Members::parse(&declared).unwrap_or_default();
        capabilities.set("roots", "{}");
        capabilities.to_json()
    }

    fn answer<'a>(&'a self, question: Question) -> Answering<'a> {
        if question.method != "roots/list" {
            return self.handler.answer(question);
        }
        // Looking at the disk may block.
        let roots = self.roots.clone();
        Box::pin(async move {
            let listed = tokio::task::spawn_blocking(move || roots.to_result()).await;
            Ok(listed.unwrap_or_else(|_| r#"{"roots":[]}"#.to_owned()))
        })
    }

    fn log(&self, server: &str, params: &str) {
        self.handler.log(server, params);
    }

    fn list_changed(&self, server: &str, notice: &str) {
        self.handler.list_changed(server, notice);
    }

    fn definitions_changed(&self, server: &str, list: &str, changes: &Changes) {
        self.handler.definitions_changed(server, list, changes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn uri(path: &Path) -> String {
        format!("file://{}", percent::encode_path(path.to_str().unwrap()))
    }

    #[test]
    fn d_41_a_root_lies_inside_what_is_allowed_and_a_link_is_no_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        for directory in ["mine/a b", "mine/deep", "other"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        fs::write(base.join("mine/deep/note"), "x").unwrap();
        fs::write(base.join("other/secret"), "x").unwrap();
        symlink(base.join("other"), base.join("mine/way-out")).unwrap();
        symlink(base.join("mine/deep"), base.join("mine/way-in")).unwrap();

        let mut roots = Roots::within(&[base.join("mine")]).unwrap();
        let lend = |roots: &mut Roots, uri: &str| roots.lend(uri, None);
        assert_eq!(lend(&mut roots, &uri(&base.join("other"))), Err(RootError::Outside));
        assert_eq!(lend(&mut roots, &uri(&base.join("mine/way-out"))), Err(RootError::Outside));
        assert_eq!(lend(&mut roots, &uri(&base.join("elsewhere"))), Err(RootError::Outside));
        assert_eq!(lend(&mut roots, &uri(&base.join("mine/none"))), Err(RootError::Missing));
        assert_eq!(lend(&mut roots, &uri(&base.join("mine/deep/note"))), Err(RootError::NoDirectory));
        let base_uri = uri(&base);
        for climbing in ["mine/../other", "mine/%2e%2E/other", "mine/..%2fother", "mine/%00"] {
            assert_eq!(
                lend(&mut roots, &format!("{base_uri}/{climbing}")),
                Err(RootError::Climbs),
                "{climbing}"
            );
        }
        for none in [
            "",
            "mine",
            "http://127.0.0.1/mine",
            "file://other.example/mine",
            "file:mine",
            "file://",
            "file:///a?b",
            "file:///%zz",
        ] {
            assert_eq!(lend(&mut roots, none), Err(RootError::NoFileUri), "{none}");
        }
        assert!(roots.is_empty());

        roots.lend(&uri(&base.join("mine/a b")), Some("notes")).unwrap();
        roots.lend(&format!("FILE://localhost{}", base.join("mine/way-in").display()), None).unwrap();
        let listed: serde_json::Value = serde_json::from_str(&roots.to_result()).unwrap();
        let expected = json!({ "roots": [
            { "uri": uri(&base.join("mine/a b")), "name": "notes" },
            { "uri": uri(&base.join("mine/deep")) },
        ] });
        assert_eq!(listed, expected);
        assert!(listed["roots"][0]["uri"].as_str().unwrap().ends_with("/a%20b"));

        // What a server names is held to what is lent, not to all that is allowed.
        assert_eq!(roots.resolve(&uri(&base.join("mine/deep/note"))), Ok(base.join("mine/deep/note")));
        assert_eq!(roots.resolve(&uri(&base.join("mine"))), Err(RootError::Outside));
        symlink(base.join("other/secret"), base.join("mine/deep/leak")).unwrap();
        assert_eq!(roots.resolve(&uri(&base.join("mine/deep/leak"))), Err(RootError::Outside));

        // A root that has become a link to the outside since is lent no more.
        fs::remove_dir(base.join("mine/a b")).unwrap();
        symlink(base.join("other"), base.join("mine/a b")).unwrap();
        assert_eq!(roots.to_result().matches("uri").count(), 1);
        assert_eq!(roots.resolve(&uri(&base.join("mine/a b/secret"))), Err(RootError::Outside));
    }
}
