//! The configuration file: TOML or JSON by the file's ending, the same keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use steadfast::client::{Builder, Client, ClientError, Command};
use steadfast_core::exchange::{Limits, LimitsError};
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
#[derive(Clone, Debug, Deserialize)]
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
}

impl Server {
    /// A client of it, to be told how the server is treated. A relative `cwd` starts at `folder`.
    ///
    /// # Errors
    /// The URL is not usable.
    pub fn client(&self, folder: &Path) -> Result<Builder, ClientError> {
        match (&self.url, &self.command) {
            (Some(url), _) => Client::of_url(url),
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
        let config: Self = if path.extension().is_some_and(|ending| ending == "json") {
            serde_json::from_str(&text).map_err(|error| shape(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| shape(error.to_string().trim_end().replace('\n', " ")))?
        };
        config.check(path)?;
        Ok(config)
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
        }
        Ok(())
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    units::duration(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
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
