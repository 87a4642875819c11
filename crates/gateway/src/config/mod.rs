//! The configuration file: TOML or JSON by the file's ending, the same keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use steadfast::client::{self, Builder, Client, ClientError, Command, Credentials, Headers, ToolContract};
use steadfast_core::era::Wish;
use steadfast_core::exchange::{Limits, LimitsError};
use steadfast_core::policy::{Effect, Idempotency};
use steadfast_core::units;

/// A whole configuration. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The host side.
    #[serde(default)]
    pub listen: Listen,
    /// What holds for every server.
    #[serde(default)]
    pub defaults: Defaults,
    /// The servers by name.
    pub servers: BTreeMap<String, Server>,
}

/// Where hosts reach the gateway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// `HOST:PORT`; port 0 lets the system choose.
    pub http: Option<String>,
    /// Whether our own stdin and stdout are a host.
    pub stdio: bool,
}

/// What holds for every server.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// The longest silence of a request.
    #[serde(deserialize_with = "duration")]
    pub idle_timeout: Duration,
    /// The longest life of a request.
    #[serde(deserialize_with = "duration")]
    pub max_timeout: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { idle_timeout: Limits::DEFAULT.idle(), max_timeout: Limits::DEFAULT.maximum() }
    }
}

/// One server: a URL, or a command.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Streamable HTTP.
    pub url: Option<String>,
    /// stdio: the program.
    pub command: Option<String>,
    /// stdio: its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// stdio: variables on top of our own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// stdio: the directory to run in.
    pub cwd: Option<PathBuf>,
    /// Streamable HTTP: headers of every request, such as `Authorization`.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Which era to speak.
    #[serde(default)]
    pub era: Era,
    /// The operator's word on tools, by a pattern of their names.
    #[serde(default)]
    pub tools: BTreeMap<String, Tool>,
}

/// Without what may be secret.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("command", &self.command)
            .field("era", &self.era)
            .finish_non_exhaustive()
    }
}

/// Which era to speak with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Modern where the server speaks it, else legacy.
    #[default]
    Auto,
    /// Nothing but the modern one.
    Modern,
    /// The handshake at once.
    Legacy,
}

/// What the operator promises of tools; `*` in their pattern stands for any text, and the most specific pattern counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Whether they change anything; absent: unknown, which is treated as a write.
    pub effect: Option<Effect>,
    /// Who enforces their keys; absent: the gateway where there is a `key` (ruling 15), else nobody.
    pub idempotency: Option<Idempotency>,
    /// Where in the arguments the key stands: a JSON Pointer.
    pub key: Option<String>,
    /// Codes of errors by which the server promises that it executed nothing (ruling 2).
    #[serde(default)]
    pub rejects: Vec<i64>,
}

/// Headers that are the same for every request. Never shown: they are credentials.
struct Fixed(Vec<(String, String)>);

impl Credentials for Fixed {
    fn headers(&self) -> Headers<'_> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

impl Server {
    /// How the client treats it.
    pub fn treatment(&self, name: &str, limits: Limits) -> client::Config {
        let contract = |(pattern, tool): (&String, &Tool)| {
            let by_key = if tool.key.is_some() { Idempotency::Gateway } else { Idempotency::None };
            let effect = tool.effect.unwrap_or(Effect::Unknown);
            ToolContract {
                key: tool.key.clone(),
                rejects: tool.rejects.clone(),
                ..ToolContract::new(pattern, effect, tool.idempotency.unwrap_or(by_key))
            }
        };
        client::Config {
            name: name.to_owned(),
            era: match self.era {
                Era::Auto => Wish::Auto,
                Era::Modern => Wish::Modern,
                Era::Legacy => Wish::Legacy,
            },
            limits,
            contracts: self.tools.iter().map(contract).collect(),
            ..client::Config::default()
        }
    }

    /// A client of it, to be told how the server is treated. A relative `cwd` starts at `folder`.
    ///
    /// # Errors
    /// The URL is not usable.
    pub fn client(&self, folder: &Path) -> Result<Builder, ClientError> {
        match (&self.url, &self.command) {
            (Some(url), _) => {
                let builder = Client::of_url(url)?;
                if self.headers.is_empty() {
                    return Ok(builder);
                }
                let headers = self.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
                Ok(builder.credentials(Arc::new(Fixed(headers.collect()))))
            }
            (None, program) => Ok(Client::of_command(Command {
                program: program.clone().unwrap_or_default().into(),
                args: self.args.iter().map(Into::into).collect(),
                env: self.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                cwd: self.cwd.as_ref().map(|cwd| folder.join(cwd)),
            })),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("the configuration {path:?} cannot be read: {source}; check the path")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not TOML or JSON of this shape.
    #[error("the configuration {path:?} is not valid: {why}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
    /// The limits contradict each other.
    #[error("the configuration's [defaults] are not usable: {0}")]
    Limits(#[from] LimitsError),
    /// No server at all.
    #[error("the configuration {0:?} names no server; add one under [servers.NAME]")]
    NoServer(PathBuf),
    /// Not exactly one server.
    #[error("the configuration names {0} servers, and this version forwards exactly one; keep one")]
    ServerCount(usize),
    /// What is to be read from the environment is not there.
    #[error("the configuration of server {server:?} reads ${{{name}}}, which is not set; set it")]
    Variable {
        /// The server.
        server: String,
        /// The variable.
        name: String,
    },
    /// Headers without an HTTP server to send them to.
    #[error("server {0:?} has headers and no url to send them to; give a command its secrets in env")]
    Headers(String),
    /// A server that is not there.
    #[error("the configuration names no server {name:?}; it has {known}")]
    UnknownServer {
        /// As it was asked for.
        name: String,
        /// Those that are there.
        known: String,
    },
    /// Ruling 22.
    #[error("the server name {0:?} is not usable; use 1 to 32 of a-z, 0-9 and -")]
    ServerName(String),
    /// Neither or both of `url` and `command`.
    #[error("server {0:?} needs either url or command, and not both; keep one of them")]
    ServerAddress(String),
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// It cannot be read, has another shape, or contradicts itself; the error says where and how to mend it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let shape = |why: String| ConfigError::Shape { path: path.to_owned(), why };
        let mut config: Self = if path.extension().is_some_and(|ending| ending == "json") {
            serde_json::from_str(&text).map_err(|error| shape(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| shape(error.to_string().trim_end().replace('\n', " ")))?
        };
        config.check(path)?;
        config.read_variables(|name| std::env::var(name).ok())?;
        Ok(config)
    }

    /// Puts values for `${NAME}` into what is said of servers.
    fn read_variables(&mut self, value: impl Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        for (name, server) in &mut self.servers {
            let places = server.url.iter_mut().chain(server.command.iter_mut()).chain(&mut server.args);
            for text in places.chain(server.env.values_mut()).chain(server.headers.values_mut()) {
                *text = filled_in(text, &value)
                    .map_err(|variable| ConfigError::Variable { server: name.clone(), name: variable })?;
            }
        }
        Ok(())
    }

    /// The server with this name.
    ///
    /// # Errors
    /// There is none; the error says which there are.
    pub fn server(&self, name: &str) -> Result<&Server, ConfigError> {
        self.servers.get(name).ok_or_else(|| ConfigError::UnknownServer {
            name: name.to_owned(),
            known: self.servers.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// The one server that is forwarded to, and its name.
    ///
    /// # Errors
    /// There are several.
    pub fn only_server(&self) -> Result<(&str, &Server), ConfigError> {
        let mut servers = self.servers.iter();
        match (servers.next(), servers.next()) {
            (Some((name, server)), None) => Ok((name, server)),
            _ => Err(ConfigError::ServerCount(self.servers.len())),
        }
    }

    /// The two limits of every request.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn limits(&self) -> Result<Limits, LimitsError> {
        Limits::new(self.defaults.idle_timeout, self.defaults.max_timeout)
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        self.limits()?;
        if self.servers.is_empty() {
            return Err(ConfigError::NoServer(path.to_owned()));
        }
        for (name, server) in &self.servers {
            let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if name.is_empty() || name.len() > 32 || !name.bytes().all(legal) {
                return Err(ConfigError::ServerName(name.clone()));
            }
            if server.url.is_some() == server.command.is_some() {
                return Err(ConfigError::ServerAddress(name.clone()));
            }
            if server.url.is_none() && !server.headers.is_empty() {
                return Err(ConfigError::Headers(name.clone()));
            }
        }
        Ok(())
    }
}

/// A text with the value of each `${NAME}` in its place; what a value holds is not looked at again. An error names the
/// variable that is not set.
fn filled_in(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, name, after)) = rest
        .split_once("${")
        .and_then(|(before, it)| it.split_once('}').map(|(name, after)| (before, name, after)))
    {
        filled.push_str(before);
        filled.push_str(&value(name).ok_or_else(|| name.to_owned())?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    units::duration(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use steadfast_core::policy::Contract;

    use super::*;

    fn read(text: &str, ending: &str) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config").with_extension(ending);
        std::fs::write(&path, text).unwrap();
        Config::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = read(
            "[defaults]\nidle_timeout = '2s'\nmax_timeout = '4s'\n[servers.shop]\nurl = 'http://h/mcp'\n",
            "toml",
        );
        let json = read(
            r#"{"defaults":{"idle_timeout":"2s","max_timeout":"4s"},"servers":{"shop":{"url":"http://h/mcp"}}}"#,
            "json",
        );
        for config in [toml.unwrap(), json.unwrap()] {
            assert_eq!(
                config.limits().unwrap(),
                Limits::new(Duration::from_secs(2), Duration::from_secs(4)).unwrap()
            );
            assert_eq!(config.servers["shop"].url.as_deref(), Some("http://h/mcp"));
        }
    }

    #[test]
    fn what_is_said_of_a_server_is_how_it_is_treated() {
        let text = "[servers.shop]\ncommand = 'x'\nera = 'legacy'\n[servers.shop.tools.'charge_*']\n\
                    effect = 'write'\nidempotency = 'upstream'\nkey = '/key'\nrejects = [-32602]\n\
                    [servers.shop.tools.find]\neffect = 'read'\n[servers.shop.tools.odd]\nkey = '/k'\n";
        let config = read(text, "toml").unwrap();
        let treated = config.servers["shop"].treatment("shop", Limits::DEFAULT);
        assert_eq!((treated.name.as_str(), treated.era), ("shop", Wish::Legacy));
        let of = |tool| treated.contract(tool).unwrap();
        let charge = of("charge_account");
        let contract = |effect, idempotency| Contract { effect, idempotency };
        assert_eq!(charge.contract, contract(Effect::Write, Idempotency::Upstream));
        assert_eq!((charge.key.as_deref(), &charge.rejects[..]), (Some("/key"), &[-32602][..]));
        assert_eq!(of("find").contract, contract(Effect::Read, Idempotency::None));
        assert_eq!(of("odd").contract, contract(Effect::Unknown, Idempotency::Gateway), "ruling 15");
    }

    #[test]
    fn variables_are_read_once_and_only_from_the_environment() {
        let value = |name: &str| (name == "TOKEN").then(|| "a${TOKEN}b".to_owned());
        for (text, filled) in [
            ("Bearer ${TOKEN}", Ok("Bearer a${TOKEN}b")),
            ("${TOKEN}${TOKEN}", Ok("a${TOKEN}ba${TOKEN}b")),
            ("$TOKEN ${", Ok("$TOKEN ${")),
            ("${OTHER}", Err("OTHER")),
        ] {
            assert_eq!(filled_in(text, value).as_deref().map_err(String::as_str), filled, "{text}");
        }
    }

    #[test]
    fn a_server_is_found_by_its_name_or_as_the_only_one() {
        let text = "[servers.shop]\nurl = 'http://h/mcp'\n";
        let one = read(text, "toml").unwrap();
        assert_eq!(one.only_server().unwrap().0, "shop");
        let two = read(&format!("{text}[servers.other]\ncommand = 'x'\n"), "toml").unwrap();
        assert!(two.only_server().unwrap_err().to_string().contains("2 servers"));
        assert_eq!(two.server("other").unwrap().command.as_deref(), Some("x"));
        assert!(two.server("sho").unwrap_err().to_string().contains("other, shop"));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, part) in [
            ("[servers.Shop]\nurl = 'x'", "a-z, 0-9"),
            ("[servers.shop]\n", "either url or command"),
            ("[servers.shop]\nurl = 'x'\ncommand = 'y'", "not both"),
            ("[servers.shop]\nurl = 'x'\nera = 'old'", "auto"),
            ("[servers.shop]\nurl = 'x'\n[servers.shop.tools.a]\neffect = 'maybe'", "read"),
            ("[servers.shop]\nurl = 'x'\nheaders = { A = '${NO_SUCH_VARIABLE}' }", "${NO_SUCH_VARIABLE}"),
            ("[servers.shop]\ncommand = 'x'\nheaders = { A = 'b' }", "in env"),
            ("[servers]\n", "names no server"),
            ("[servers.shop]\nurl = 'x'\ncolour = 'red'", "colour"),
            ("[defaults]\nidle_timeout = '2 s'\n[servers.shop]\nurl = 'x'", "not a duration"),
            ("[defaults]\nidle_timeout = '2h'\n[servers.shop]\nurl = 'x'", "longer than the maximum"),
        ] {
            let error = read(text, "toml").unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
