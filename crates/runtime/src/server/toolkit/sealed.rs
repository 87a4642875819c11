//! State that travels through a client and comes back: sealed, so that it cannot be changed, lent or kept (MRT-22..25).

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use steadfast_core::ijson::Document;
use steadfast_core::task::TaskOwner;
use steadfast_core::time::Wall;

use crate::server::Caller;

/// The key that seals; each process of one store has the same, so that any replica serves any round (MRT-33).
#[derive(Clone)]
pub(super) struct Seal([u8; 32]);

/// The call that a state belongs to: it opens for the same principal, method, name and arguments only.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) caller: Arc<Caller>,
    pub(super) method: &'static str,
    /// The tool, prompt or resource.
    pub(super) name: String,
    /// The JSON text of the arguments, as it came.
    pub(super) arguments: String,
}

/// A state that is not this server's, not this call's, not this caller's, too old, or changed on the way: which of
/// these is nobody's to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Seal {
    pub(super) const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Seals a text until `expires`.
    pub(super) fn close(&self, origin: &Origin, expires: Wall, text: &str) -> String {
        let mut body = expires.as_unix_millis().to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        let mac = self.mac(origin, &body).finalize().into_bytes();
        format!("{}.{}", BASE64.encode(&body), BASE64.encode(mac))
    }

    /// Opens what [`Self::close`] made, if it is still valid and this call's.
    pub(super) fn open(&self, origin: &Origin, now: Wall, sealed: &str) -> Result<String, Broken> {
        let (body, mac) = sealed.split_once('.').ok_or(Broken)?;
        let (body, mac) = (BASE64.decode(body).map_err(|_| Broken)?, BASE64.decode(mac).map_err(|_| Broken)?);
        self.mac(origin, &body).verify_slice(&mac).map_err(|_| Broken)?;
        let (expires, text) = body.split_first_chunk::<8>().ok_or(Broken)?;
        if now.as_unix_millis() >= u64::from_be_bytes(*expires) {
            return Err(Broken);
        }
        String::from_utf8(text.to_vec()).map_err(|_| Broken)
    }

    /// Every part with its length, so that no two calls have the same input.
    fn mac(&self, origin: &Origin, body: &[u8]) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to its block; doing so here leaves nothing that could fail.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        let Origin { caller, method, name, arguments } = origin;
        // In their canonical form, where they have one: a client may write them anew for each round.
        let canonical = Document::parse(arguments.as_bytes()).map(|document| document.canonical());
        let arguments = canonical.as_ref().unwrap_or(arguments);
        let TaskOwner { tenant, principal } = &caller.principal;
        for part in [
            tenant.as_bytes(),
            principal.as_bytes(),
            method.as_bytes(),
            name.as_bytes(),
            arguments.as_bytes(),
            body,
        ] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::hop::Transport;

    use super::*;

    // shows: MRT-22, MRT-25, MRT-32, MRT-39
    #[test]
    fn mrt_23_a_state_opens_for_its_own_call_until_it_expires_and_for_nothing_else() {
        let (seal, other) = (Seal::new([1; 32]), Seal::new([2; 32]));
        let [anna, bert] = ["anna", "bert"].map(|name| {
            let mut caller = Caller::local(Transport::Http);
            caller.principal.principal = name.into();
            Arc::new(caller)
        });
        let origin = |caller: &Arc<Caller>, method, name: &str, arguments: &str| Origin {
            caller: Arc::clone(caller),
            method,
            name: name.into(),
            arguments: arguments.into(),
        };
        let own = origin(&anna, "tools/call", "pay", r#"{"a":1,"b":2}"#);
        let (then, late) = (Wall::from_unix_millis(1_000), Wall::from_unix_millis(2_000));
        let state = seal.close(&own, late, "step 2");
        assert_eq!(seal.open(&own, then, &state).as_deref(), Ok("step 2"));
        let rewritten = origin(&anna, "tools/call", "pay", r#"{ "b": 2.0, "a": 1 }"#);
        assert_eq!(seal.open(&rewritten, then, &state).as_deref(), Ok("step 2"), "the same arguments");
        assert_eq!(seal.open(&own, late, &state), Err(Broken), "expired");
        for (which, foreign) in [
            ("principal", origin(&bert, "tools/call", "pay", r#"{"a":1,"b":2}"#)),
            ("method", origin(&anna, "prompts/get", "pay", r#"{"a":1,"b":2}"#)),
            ("name", origin(&anna, "tools/call", "refund", r#"{"a":1,"b":2}"#)),
            ("arguments", origin(&anna, "tools/call", "pay", r#"{"a":1,"b":3}"#)),
            ("lengths", origin(&anna, "tools/call", "pa", r#"y{"a":1,"b":2}"#)),
        ] {
            assert_eq!(seal.open(&foreign, then, &state), Err(Broken), "{which}");
        }
        assert_eq!(other.open(&own, then, &state), Err(Broken), "of another server");
        for at in 0..state.len() {
            let mut changed = state.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(&own, then, &String::from_utf8(changed).unwrap()), Err(Broken), "at {at}");
        }
        for broken in ["", ".", "x", &format!("{state}-TAMPERED"), &state[1..]] {
            assert_eq!(seal.open(&own, then, broken), Err(Broken), "{broken}");
        }
    }
}
