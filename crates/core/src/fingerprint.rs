//! Who a key belongs to, what it is bound to, and how it reaches an upstream (product.md "Idempotency, exactly").

use alloc::string::String;
use core::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::ijson::Document;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// An idempotency key: the caller's name for one business intent. Its text stays out of logs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum KeyError {
    /// Nothing to name an intent with.
    #[error("the idempotency key is empty; use a fresh value such as a UUID for each business intent")]
    Empty,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the idempotency key is longer than {MAX_KEY_BYTES} bytes; use a shorter one such as a UUID")]
    TooLong,
    /// It could not travel in a header, nor be shown.
    #[error("the idempotency key holds a control character; use printable characters")]
    ControlCharacter,
    /// Two carriers of one request name different intents.
    #[error("{first} and {second} carry different idempotency keys; send one, or the same in both")]
    Disagree {
        /// The carrier that comes first in the order.
        first: Carrier,
        /// The other one.
        second: Carrier,
    },
}

/// Where a request may carry its key, in the order in which they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrier {
    /// The HTTP header `Idempotency-Key`.
    Header,
    /// `params._meta["steadfast/idempotencyKey"]`.
    Meta,
    /// `params.idempotencyKey`.
    Params,
    /// The configured pointer into the arguments.
    Arguments,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "the header Idempotency-Key",
            Self::Meta => "_meta[\"steadfast/idempotencyKey\"]",
            Self::Params => "params.idempotencyKey",
            Self::Arguments => "the arguments",
        })
    }
}

impl Key {
    /// Checks a text.
    ///
    /// # Errors
    /// Empty, too long, or with control characters.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            Err(KeyError::Empty)
        } else if text.len() > MAX_KEY_BYTES {
            Err(KeyError::TooLong)
        } else if text.chars().any(char::is_control) {
            Err(KeyError::ControlCharacter)
        } else {
            Ok(Self(text.into()))
        }
    }

    /// The key that the carriers of one request agree on; `None` if none carries one.
    ///
    /// # Errors
    /// One of them carries what is no key, or two of them disagree.
    pub fn from_carriers<'a>(
        carriers: impl IntoIterator<Item = (Carrier, Option<&'a str>)>,
    ) -> Result<Option<Self>, KeyError> {
        let mut found: Option<(Carrier, Self)> = None;
        for (carrier, text) in carriers {
            let Some(text) = text else { continue };
            let key = Self::new(text)?;
            match &found {
                None => found = Some((carrier, key)),
                Some((first, known)) if *known != key => {
                    return Err(KeyError::Disagree { first: *first, second: carrier });
                }
                Some(_) => {}
            }
        }
        Ok(found.map(|(_, key)| key))
    }

    /// The key's text: for an upstream, a store, or the operator who asks for it; never for a log.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// Whose keys are told apart: the same text in two scopes names two intents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The tenant; `local` where nobody authenticates.
    pub tenant: String,
    /// The principal within the tenant; `local` where nobody authenticates.
    pub principal: String,
    /// The server's configured name.
    pub server: String,
}

impl Scope {
    /// The scope of this machine's own user towards one server.
    pub fn local(server: &str) -> Self {
        Self { tenant: "local".into(), principal: "local".into(), server: server.into() }
    }

    /// Scope and key as one value that no other scope and key has; the store's index is made of it.
    pub fn address(&self, key: &Key) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [&self.tenant, &self.principal, &self.server, &key.0] {
            feed(part.as_bytes(), |bytes| hash.update(bytes));
        }
        hash.finalize().into()
    }

    /// The key as an upstream with callers of several principals sees it (ruling 4): equal texts of two principals
    /// become two keys, and neither can be guessed from the other.
    pub fn derived_key(&self, key: &Key) -> String {
        let mut hash = Sha256::new();
        for part in [&self.tenant, &self.principal, &key.0] {
            feed(part.as_bytes(), |bytes| hash.update(bytes));
        }
        BASE64_URL_SAFE_NO_PAD.encode(hash.finalize())
    }
}

/// The secret under which fingerprints are made: kept in the store, so that stored ones cannot be guessed from
/// small arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl Secret {
    /// A key for one purpose, which tells nothing of this secret or of a fingerprint under it.
    pub fn key_for(&self, purpose: &str) -> [u8; 32] {
        let mut mac = self.mac();
        feed(purpose.as_bytes(), |bytes| mac.update(bytes));
        mac.finalize().into_bytes().into()
    }

    fn mac(&self) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to its block; doing so here leaves nothing that could fail.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        Hmac::<Sha256>::new(&block.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a key is bound to: one operation with these arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(&self.0[..6]))
    }
}

impl Fingerprint {
    /// HMAC-SHA-256 over the operation's own name and the canonical arguments (ruling 4). The member that carries
    /// the key is the caller's to leave out first; absent arguments are `{}`.
    pub fn of(secret: &Secret, operation: &str, arguments: &Document) -> Self {
        let mut mac = secret.mac();
        feed(operation.as_bytes(), |bytes| mac.update(bytes));
        feed(arguments.canonical().as_bytes(), |bytes| mac.update(bytes));
        Self(mac.finalize().into_bytes().into())
    }
}

/// Length first, so that no two lists of parts give the same bytes.
fn feed(part: &[u8], mut sink: impl FnMut(&[u8])) {
    sink(&(part.len() as u64).to_be_bytes());
    sink(part);
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const SECRET: Secret = Secret([7; 32]);

    fn of(operation: &str, arguments: &str) -> Fingerprint {
        Fingerprint::of(&SECRET, operation, &Document::parse(arguments.as_bytes()).unwrap())
    }

    #[test]
    fn d_11_a_fingerprint_is_bound_to_operation_and_arguments_and_to_nothing_else() {
        let same = of("charge", r#"{"cents":100,"account":"a"}"#);
        assert_eq!(of("charge", " {\"account\" : \"\\u0061\", \"cents\":1e2 }"), same);
        for other in [
            of("charge", r#"{"cents":101,"account":"a"}"#),
            of("charge", r#"{"cents":"100","account":"a"}"#),
            of("charge", r#"{"cents":100,"account":"a","x":null}"#),
            of("refund", r#"{"cents":100,"account":"a"}"#),
            Fingerprint::of(
                &Secret([8; 32]),
                "charge",
                &Document::parse(br#"{"cents":100,"account":"a"}"#).unwrap(),
            ),
        ] {
            assert_ne!(other, same);
        }
        assert_eq!(Fingerprint::of(&SECRET, "x", &Document::empty_object()), of("x", "{}"));
        // The boundary between name and arguments cannot be moved.
        assert_ne!(of("a", "1"), of("a\0", "1"));
    }

    #[test]
    fn the_key_member_is_left_out_before_the_fingerprint() {
        let mut with = Document::parse(br#"{"cents":1,"idempotencyKey":"k1"}"#).unwrap();
        assert!(with.remove("/idempotencyKey"));
        assert_eq!(Fingerprint::of(&SECRET, "charge", &with), of("charge", r#"{"cents":1}"#));
    }

    #[test]
    fn d_11_carriers_agree_or_the_request_is_refused() {
        use Carrier::{Arguments, Header, Meta, Params};
        let key = |texts: [Option<&'static str>; 4]| {
            Key::from_carriers([Header, Meta, Params, Arguments].into_iter().zip(texts))
        };
        assert_eq!(key([None; 4]), Ok(None));
        assert_eq!(key([None, Some("k"), None, Some("k")]), Ok(Some(Key::new("k").unwrap())));
        assert_eq!(
            key([Some("k"), None, None, Some("l")]),
            Err(KeyError::Disagree { first: Header, second: Arguments })
        );
        assert_eq!(key([Some(""), None, None, None]), Err(KeyError::Empty));
        assert_eq!(key([None, Some("a\nb"), None, None]), Err(KeyError::ControlCharacter));
        assert_eq!(Key::new(&"k".repeat(256)), Err(KeyError::TooLong));
        assert!(Key::new(&"k".repeat(255)).is_ok());
    }

    #[test]
    fn ruling_04_derived_keys_tell_principals_apart() {
        let scope = |tenant: &str, principal: &str| Scope {
            tenant: tenant.into(),
            principal: principal.into(),
            server: "shop".into(),
        };
        let key = Key::new("k").unwrap();
        let own = scope("t", "p").derived_key(&key);
        assert_eq!(own.len(), 43);
        assert_ne!(own, scope("t", "q").derived_key(&key));
        assert_ne!(scope("ab", "c").derived_key(&key), scope("a", "bc").derived_key(&key));
        assert_ne!(scope("ab", "c").address(&key), scope("a", "bc").address(&key));
    }

    #[test]
    fn g15_neither_keys_nor_secrets_are_printed() {
        assert_eq!(format!("{:?} {SECRET:?}", Key::new("hunter2").unwrap()), "Key(7 bytes) Secret(…)");
    }
}
