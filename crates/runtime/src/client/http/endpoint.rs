//! Where a server listens, and which other addresses are still the same place.

use std::fmt;

use fluent_uri::{Uri, UriRef};
use hyper::http::HeaderValue;

use crate::client::ClientError;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    uri: Uri<String>,
    secure: bool,
    /// As TLS names it: an IPv6 address without its brackets.
    host: String,
    port: u16,
    /// The value of the `Host` header.
    authority: HeaderValue,
    /// What the request line asks for: path and query.
    target: hyper::Uri,
}

impl Endpoint {
    /// Reads `http://HOST[:PORT][/PATH][?QUERY]`, or the same with `https`.
    ///
    /// # Errors
    /// Another scheme, no host, user information, or no URL at all.
    pub fn parse(url: &str) -> Result<Self, ClientError> {
        let refuse = |why| ClientError::Address { url: shown(url), why };
        let uri = Uri::parse(url).map_err(|_| refuse("it is no URL"))?;
        Self::of(uri.normalize()).map_err(refuse)
    }

    fn of(mut uri: Uri<String>) -> Result<Self, &'static str> {
        uri.set_fragment(None);
        let secure = match uri.scheme().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("its scheme is neither http nor https"),
        };
        let authority = uri.authority().filter(|it| !it.host().is_empty()).ok_or("it names no host")?;
        if authority.has_userinfo() {
            return Err("it carries user information; give credentials as a header");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_to_u16().map_err(|_| "its port is above 65535")?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let path = if uri.path().is_empty() { "/" } else { uri.path().as_str() };
        let target = match uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let target = target.parse().map_err(|_| "its path and query cannot be asked for")?;
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| "its host cannot be named")?;
        Ok(Self { uri, secure, host, port, authority, target })
    }

    /// Follows a reference that the server gave: absolute, or relative to this address.
    ///
    /// # Errors
    /// It leads to another origin, which is told without its path, or nowhere.
    pub(super) fn resolve(&self, reference: &str) -> Result<Self, String> {
        let reference = UriRef::parse(reference).map_err(|_| "no URL".to_owned())?;
        let uri = reference.resolve_against(&self.uri).map_err(|_| "no URL".to_owned())?;
        let other = Self::of(uri.normalize()).map_err(|_| "an address that is none of HTTP".to_owned())?;
        if (other.secure, &other.host, other.port) == (self.secure, &self.host, self.port) {
            Ok(other)
        } else {
            Err(format!("{}, which is another origin", other.origin()))
        }
    }

    pub(super) const fn is_secure(&self) -> bool {
        self.secure
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) const fn target(&self) -> &hyper::Uri {
        &self.target
    }

    pub(super) const fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Host and port, for sentences: path and query may be secret.
    pub(super) fn place(&self) -> String {
        let bracketed = self.host.contains(':');
        let host = if bracketed { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.place())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

/// An address as far as it may be shown: without user information, path and query.
fn shown(url: &str) -> String {
    let (scheme, rest) =
        url.split_once("://").map_or(("", url), |(scheme, rest)| (&url[..scheme.len() + 3], rest));
    let (authority, more) = match rest.find(['/', '?', '#']) {
        Some(at) => (&rest[..at], "/…"),
        None => (rest, ""),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}{host}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_defaults() {
        for (url, secure, host, port, authority, target) in [
            ("http://a", false, "a", 80, "a", "/"),
            ("HTTP://A.example:80/Mcp", false, "a.example", 80, "a.example", "/Mcp"),
            ("https://a:8443/x?y=1#z", true, "a", 8443, "a:8443", "/x?y=1"),
            ("https://[::1]/mcp", true, "::1", 443, "[::1]", "/mcp"),
            ("http://127.0.0.1:9?q", false, "127.0.0.1", 9, "127.0.0.1:9", "/?q"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap();
            assert_eq!((endpoint.is_secure(), endpoint.host(), endpoint.port), (secure, host, port), "{url}");
            assert_eq!(
                (endpoint.authority().to_str().unwrap(), &*endpoint.target().to_string()),
                (authority, target),
                "{url}"
            );
        }
        assert_eq!(Endpoint::parse("https://[::1]").unwrap().place(), "[::1]:443");
    }

    #[test]
    fn an_address_that_is_none_is_refused_without_telling_its_secrets() {
        for url in [
            "",
            "a",
            "/mcp?token=secret",
            "ftp://a/secret",
            "http:///secret",
            "http://user:secret@a/secret",
            "http://a:99999/secret",
            "http://a b/secret",
            "unix:/secret",
        ] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let endpoint = Endpoint::parse("http://a/secret?secret").unwrap();
        assert!(!format!("{endpoint:?} {}", endpoint.place()).contains("secret"));
    }

    // shows: LEG-135
    #[test]
    fn f056_a_reference_is_followed_within_the_origin_and_nowhere_else() {
        let base = Endpoint::parse("http://a:8080/x/sse?k=1").unwrap();
        for (reference, target) in [
            ("/messages?session=1", "/messages?session=1"),
            ("messages", "/x/messages"),
            ("../up", "/up"),
            ("?k=2", "/x/sse?k=2"),
            ("http://a:8080/y#z", "/y"),
            ("HTTP://A:8080", "/"),
            ("//a:8080/y", "/y"),
        ] {
            assert_eq!(base.resolve(reference).unwrap().target().to_string(), target, "{reference}");
        }
        for reference in [
            "http://a/y",
            "https://a:8080/y",
            "//b:8080/y",
            "http://b:8080",
            "ftp://a:8080/y",
            "a b",
            "http://u@a:8080",
        ] {
            let refusal = base.resolve(reference).unwrap_err();
            assert!(!refusal.contains("/y"), "{refusal}");
        }
        assert_eq!(base.resolve("https://b/y?z").unwrap_err(), "https://b:443, which is another origin");
    }
}
