//! Who may reach an endpoint: no page of a browser that was lured to it (HTTP-02), and nobody without a key where keys
//! are demanded (HTTP-04).

use std::fmt;
use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use sha2::{Digest, Sha256};
use steadfast_core::task::TaskOwner;

use super::negotiate::only;

/// A bearer key, known by its digest alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    name: String,
    digest: [u8; 32],
    owner: TaskOwner,
    scopes: Vec<String>,
}

/// What is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not a digest.
    #[error("the sha256 of key {name:?} is not 64 hex digits; write what `printf %s KEY | sha256sum` prints")]
    Digest {
        /// The key's name.
        name: String,
    },
}

impl Key {
    /// A key by its name, the SHA-256 of its text in hex, and whom it stands for.
    ///
    /// # Errors
    /// `sha256` is not 64 hex digits.
    pub fn new(name: &str, sha256: &str, owner: TaskOwner, scopes: Vec<String>) -> Result<Self, KeyError> {
        let mut digest = [0; 32];
        let is_hex = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return Err(KeyError::Digest { name: name.to_owned() });
        }
        for (at, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&sha256[2 * at..2 * at + 2], 16).unwrap_or_default();
        }
        Ok(Self { name: name.to_owned(), digest, owner, scopes })
    }

    /// What logs call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whom it stands for.
    pub const fn owner(&self) -> &TaskOwner {
        &self.owner
    }

    /// What it may be used for (ruling 21).
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// The keys of which each request must bear one.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Keys {
    /// The key whose text this is. Takes as long for every text of a length, and looks at every key.
    pub fn find(&self, text: &str) -> Option<&Key> {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let mut found = None;
        for key in &self.0 {
            let differing = key.digest.iter().zip(&digest).fold(0, |all, (a, b)| all | (a ^ b));
            if std::hint::black_box(differing) == 0 {
                found = Some(key);
            }
        }
        found
    }
}

/// Why a request goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// `Host` is missing, repeated, or does not name this endpoint.
    Host,
    /// `Origin` is repeated or names no page that may call.
    Origin,
    /// No key that is known.
    Key {
        /// One was borne.
        borne: bool,
    },
}

/// The checks of one endpoint, on by default.
#[derive(Debug)]
pub(super) struct Guard {
    /// Only this machine can reach it.
    pub(super) is_loopback: bool,
    /// Names beside the loopback ones.
    pub(super) hosts: Vec<String>,
    /// Origins beside the loopback ones, as `https://example.org`.
    pub(super) origins: Vec<String>,
    pub(super) keys: Option<Keys>,
}

impl Guard {
    /// Whom the request comes from. `authority` is the one that HTTP/2 sends in the place of `Host`.
    pub(super) fn admit(&self, headers: &HeaderMap, authority: Option<&str>) -> Result<TaskOwner, Denied> {
        let hosts = headers.get_all(HOST).iter().count();
        let named = [authority, only(headers, HOST)];
        let names_us = named.iter().flatten().all(|authority| self.is_own_host(authority));
        if hosts > 1 || named == [None, None] || !names_us {
            return Err(Denied::Host);
        }
        if headers.contains_key(ORIGIN) && !only(headers, ORIGIN).is_some_and(|origin| self.may_call(origin))
        {
            return Err(Denied::Origin);
        }
        let Some(keys) = &self.keys else {
            return Ok(TaskOwner { tenant: "local".into(), principal: "local".into() });
        };
        let borne = only(headers, AUTHORIZATION).and_then(bearer);
        match borne.and_then(|text| keys.find(text)) {
            Some(key) => Ok(key.owner.clone()),
            None => Err(Denied::Key { borne: headers.contains_key(AUTHORIZATION) }),
        }
    }

    /// A page elsewhere can give a name of its own our address, but no address a foreign name: so a loopback endpoint
    /// is named by a loopback name, and one that others can reach by any address too.
    fn is_own_host(&self, authority: &str) -> bool {
        let Some((host, _)) = split(authority) else { return false };
        is_loopback(host)
            || (!self.is_loopback && address(host).is_some())
            || self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    fn may_call(&self, origin: &str) -> bool {
        let Some(wanted) = Origin::parse(origin) else { return false };
        is_loopback(wanted.host)
            || self
                .origins
                .iter()
                .filter_map(|origin| Origin::parse(origin))
                .any(|allowed| allowed.is(&wanted))
    }
}

/// Where a page comes from: only `http` and `https` have such places.
struct Origin<'a> {
    is_secure: bool,
    host: &'a str,
    port: u16,
}

impl<'a> Origin<'a> {
    fn parse(origin: &'a str) -> Option<Self> {
        let (scheme, authority) = origin.split_once("://")?;
        let is_secure = scheme.eq_ignore_ascii_case("https");
        if !is_secure && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let (host, port) = split(authority)?;
        Some(Self { is_secure, host, port: port.unwrap_or(if is_secure { 443 } else { 80 }) })
    }

    fn is(&self, other: &Self) -> bool {
        (self.is_secure, self.port) == (other.is_secure, other.port)
            && self.host.eq_ignore_ascii_case(other.host)
    }
}

/// Host and port of `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`; `None` for everything else, a user name included.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let end = match authority.strip_prefix('[') {
        Some(inner) => inner.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if address(host).is_none() && (host.is_empty() || !host.bytes().all(is_name)) {
        return None;
    }
    match port.strip_prefix(':') {
        None => port.is_empty().then_some((host, None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((host, Some(port.parse().ok()?)))
        }
        Some(_) => None,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[') {
        Some(inner) => Some(IpAddr::V6(inner.strip_suffix(']')?.parse().ok()?)),
        None => Some(IpAddr::V4(host.parse().ok()?)),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|address| address.is_loopback())
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            is_loopback: true,
            hosts: vec!["mcp.example.org".into()],
            origins: vec!["https://app.example.org".into()],
            keys: None,
        }
    }

    fn ask(guard: &Guard, sent: &[(&'static str, &str)]) -> Result<TaskOwner, Denied> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, value.parse().unwrap());
        }
        guard.admit(&headers, None)
    }

    #[test]
    fn http_02_only_a_name_of_this_endpoint_is_taken_for_it() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:9000", true),
            ("127.0.0.1:9000", true),
            ("127.8.8.8", true),
            ("[::1]", true),
            ("[::1]:9000", true),
            ("MCP.example.org:443", true),
            ("example.org", false),
            ("localhost.example.org", false),
            ("localhost@example.org", false),
            ("example.org@localhost", false),
            ("localhost:9000:9000", false),
            ("localhost:x", false),
            ("localhost:99999", false),
            ("[::1", false),
            ("[::1]x", false),
            ("[localhost]", false),
            ("::1", false),
            ("192.0.2.7", false),
            ("0.0.0.0", false),
            ("", false),
        ] {
            assert_eq!(ask(&guard(), &[("host", host)]).is_ok(), expected, "{host}");
        }
        assert_eq!(ask(&guard(), &[]), Err(Denied::Host));
        assert_eq!(ask(&guard(), &[("host", "localhost"), ("host", "localhost")]), Err(Denied::Host));
        let open = Guard { is_loopback: false, ..guard() };
        assert!(ask(&open, &[("host", "192.0.2.7:80")]).is_ok(), "an address cannot be rebound");
        assert!(ask(&open, &[("host", "[2001:db8::1]")]).is_ok());
        assert!(ask(&open, &[("host", "example.org")]).is_err());
    }

    #[test]
    fn http_02_the_authority_of_http_2_is_checked_beside_the_host() {
        let admit = |host: Option<&'static str>, authority| {
            let headers = host.map(|host| (HOST, host.parse().unwrap())).into_iter().collect();
            guard().admit(&headers, Some(authority)).is_ok()
        };
        assert!(admit(None, "localhost:9000"));
        assert!(admit(Some("localhost"), "localhost:9000"));
        assert!(!admit(Some("localhost"), "example.org"));
        assert!(!admit(Some("example.org"), "localhost"));
    }

    #[test]
    fn http_02_only_pages_of_this_machine_and_configured_ones_may_call() {
        for (origin, expected) in [
            ("http://localhost:3000", true),
            ("HTTPS://LocalHost", true),
            ("http://[::1]:9", true),
            ("https://app.example.org", true),
            ("https://APP.example.org:443", true),
            ("https://app.example.org:444", false),
            ("http://app.example.org", false),
            ("https://app.example.org.evil.example", false),
            ("https://localhost.evil.example", false),
            ("chrome-extension://localhost", false),
            ("file://", false),
            ("null", false),
            ("http://localhost/path", false),
            ("", false),
        ] {
            let asked = ask(&guard(), &[("host", "localhost"), ("origin", origin)]);
            assert_eq!(asked.is_ok(), expected, "{origin}");
        }
        let origin = ("origin", "http://localhost");
        assert_eq!(ask(&guard(), &[("host", "localhost"), origin, origin]), Err(Denied::Origin));
    }

    #[test]
    fn http_04_where_keys_are_demanded_each_request_bears_one() {
        let owner = |principal: &str| TaskOwner { tenant: "acme".into(), principal: principal.into() };
        // Of `open sesame` and of the empty text.
        let key = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";
        let empty = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";
        let keys: Keys = [("ci", key), ("none", empty)]
            .into_iter()
            .map(|(name, sha256)| Key::new(name, sha256, owner(name), vec!["read".into()]).unwrap())
            .collect();
        let guard = Guard { keys: Some(keys.clone()), ..guard() };
        let bearing = |value: &str| ask(&guard, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(bearing("Bearer open sesame"), Ok(owner("ci")));
        assert_eq!(bearing("bearer  open sesame "), Ok(owner("ci")));
        for refused in ["Bearer open", "Bearer ", "Bearer", "Basic open sesame", "open sesame", key] {
            assert_eq!(bearing(refused), Err(Denied::Key { borne: true }), "{refused}");
        }
        assert_eq!(ask(&guard, &[("host", "localhost")]), Err(Denied::Key { borne: false }));
        let twice = ("authorization", "Bearer open sesame");
        assert!(ask(&guard, &[("host", "localhost"), twice, twice]).is_err());
        let shown = format!("{keys:?}");
        assert!(shown.contains("ci") && !shown.contains("65, 239") && !shown.contains("41ef"), "{shown}");
        for broken in ["", "41ef", &"g".repeat(64), &"é".repeat(32)] {
            assert!(Key::new("ci", broken, owner("ci"), Vec::new()).is_err());
        }
    }
}
