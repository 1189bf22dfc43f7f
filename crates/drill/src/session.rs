//! How a router is reached, and what protects the way there: Zenoh's own configuration.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use zenoh::Config;

/// Hosts answer below it; it has our version.
const KEYS: &str = "transom-drill1";
/// Who went is noticed after this time, ms.
const LEASE_MS: u32 = 4000;

/// The key at which a host answers. Names of hosts have no character that Zenoh reads as a pattern.
pub fn key(host: &str) -> String {
    format!("{KEYS}/{host}")
}

pub fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("Zenoh: {}", without_places(&error.to_string()))
}

/// Zenoh ends each sentence with the line of its source that says it, ` at /…/file.rs:61.`, which is
/// of no use to who runs it.
fn without_places(text: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        match words.next_if(|next| word == "at" && next.contains(".rs:")) {
            // What follows the number belongs to the sentence.
            Some(place) => {
                let (_, line) = place.rsplit_once(".rs:").unwrap_or_default();
                let rest = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                if let Some(last) = kept.last_mut() {
                    last.push_str(rest);
                }
            }
            None => kept.push(word.to_owned()),
        }
    }
    kept.join(" ")
}

fn set(config: &mut Config, key: &str, value: &Value) -> Result<()> {
    config.insert_json5(key, &value.to_string()).map_err(failed).with_context(|| key.to_owned())
}

/// Zenoh's addresses begin with how what is there is reached; its own error only quotes them.
fn set_endpoints(config: &mut Config, key: &str, addresses: &[String]) -> Result<()> {
    for address in addresses {
        let is_one =
            address.split_once('/').is_some_and(|(way, at)| !way.is_empty() && !at.is_empty());
        ensure!(
            is_one,
            "'{address}' does not say how it is reached: tls/HOST:7447, or tcp/HOST:7447 on this machine"
        );
    }
    set(config, key, &json!(addresses))
}

fn get<T: serde::de::DeserializeOwned>(config: &Config, key: &str) -> Option<T> {
    serde_json::from_str(&config.get_json(key).ok()?).ok()
}

/// What Zenoh's file says, or its defaults; never what it would look for by itself.
fn base(file: Option<&Path>) -> Result<Config> {
    let mut config = match file {
        Some(file) => {
            let named = || format!("--config {}", file.display());
            Config::from_file(file).map_err(failed).with_context(named)?
        }
        None => Config::default(),
    };
    for key in ["connect_private_key", "listen_private_key"] {
        if let Some(key) = get::<PathBuf>(&config, &format!("transport/link/tls/{key}")) {
            ensure_secret(&key)?;
        }
    }
    set(&mut config, "scouting/multicast/enabled", &json!(false))?;
    set(&mut config, "scouting/gossip/enabled", &json!(false))?;
    set(&mut config, "transport/link/tx/lease", &json!(LEASE_MS))?;
    Ok(config)
}

fn ensure_secret(key: &Path) -> Result<()> {
    let shown = key.display();
    let found = std::fs::metadata(key).with_context(|| format!("the private key {shown}"))?;
    let mode = found.mode() & 0o777;
    ensure!(
        mode & 0o007 == 0,
        "the private key {shown} can be read by everybody (mode {mode:04o}): chmod o= {shown}, and \
         make a new one if somebody may have"
    );
    Ok(())
}

/// A program that dials: nothing listens.
///
/// # Errors
/// No router is named, the configuration is none, or a private key is no secret.
pub fn client(routers: &[String], file: Option<&Path>, wait: Wait) -> Result<Config> {
    let mut config = base(file)?;
    set(&mut config, "mode", &json!("client"))?;
    set(&mut config, "listen/endpoints", &json!([]))?;
    if !routers.is_empty() {
        set_endpoints(&mut config, "connect/endpoints", routers)?;
    }
    ensure!(
        !endpoints(&config, "connect/endpoints").is_empty(),
        "name a Zenoh router: --router tls/ROUTER:7447, or `connect` in the file of --config"
    );
    let (timeout_ms, ends) = match wait {
        Wait::Ever => (-1, false),
        Wait::Ms(ms) => (i64::from(ms), true),
    };
    set(&mut config, "connect/timeout_ms", &json!(timeout_ms))?;
    set(&mut config, "connect/exit_on_failure", &json!(ends))?;
    let retry = json!({
        "period_init_ms": 500, "period_max_ms": 30_000, "period_increase_factor": 2,
    });
    set(&mut config, "connect/retry", &retry)?;
    Ok(config)
}

/// How long a router is waited for.
#[derive(Clone, Copy)]
pub enum Wait {
    Ever,
    Ms(u32),
}

/// A program that others dial.
///
/// # Errors
/// No address is named, the configuration is none, or a private key is no secret.
pub fn listener(listen: &[String], file: Option<&Path>) -> Result<Config> {
    let mut config = base(file)?;
    set(&mut config, "mode", &json!("router"))?;
    if !listen.is_empty() {
        set_endpoints(&mut config, "listen/endpoints", listen)?;
    }
    ensure!(
        !endpoints(&config, "listen/endpoints").is_empty(),
        "name an address: --listen tls/0.0.0.0:7447, or `listen` in the file of --config"
    );
    Ok(config)
}

/// Lists of a file may differ by mode.
pub fn endpoints(config: &Config, key: &str) -> Vec<String> {
    match get::<Value>(config, key) {
        Some(Value::Array(all)) => texts(&all),
        Some(Value::Object(modes)) => {
            let lists = modes.values().filter_map(Value::as_array);
            lists.flat_map(|all| texts(all)).collect()
        }
        _ => Vec::new(),
    }
}

fn texts(all: &[Value]) -> Vec<String> {
    all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// # Errors
/// Others than this machine would hear and be heard there, and nobody is asked who they are.
pub fn ensure_protected(endpoints: &[String], plain: bool) -> Result<()> {
    let open = endpoints.iter().find(|endpoint| !is_protected(endpoint));
    match open {
        Some(open) if !plain => bail!(
            "{open} has no TLS: whoever is there asks and reads. Use tls/… with --config \
             (docs/drill.md), or say --plain"
        ),
        _ => Ok(()),
    }
}

fn is_protected(endpoint: &str) -> bool {
    let (protocol, rest) = endpoint.split_once('/').unwrap_or((endpoint, ""));
    let address = rest.split(['?', '#']).next().unwrap_or_default();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) || host == "localhost";
    ["tls", "quic"].contains(&protocol) || is_here
}

/// Becomes true with Ctrl-C, or when a service manager ends this.
///
/// # Errors
/// The kernel lets no handler in.
pub fn ended() -> Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Asked before the first one is noted, so only a second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, ended.clone())?;
        signal_hook::flag::register(signal, ended.clone())?;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_tls_and_this_machine_are_protected() {
        for (endpoint, is) in [
            ("tls/router.example:7447", true),
            ("tcp/127.0.0.1:7447", true),
            ("tcp/[::1]:7447", true),
            ("tcp/localhost:7447#iface=lo", true),
            ("tcp/10.0.0.1:7447", false),
            ("tcp/[2001:db8::1]:7447", false),
            ("tcp/0.0.0.0:7447", false),
            ("udp/127.0.0.1.example:7447", false),
        ] {
            assert_eq!(is_protected(endpoint), is, "{endpoint}");
            assert_eq!(ensure_protected(&[endpoint.into()], false).is_ok(), is);
            assert!(ensure_protected(&[endpoint.into()], true).is_ok());
        }
    }

    #[test]
    fn a_key_that_everybody_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (key, file) = (folder.path().join("key.pem"), folder.path().join("zenoh.json5"));
        std::fs::write(&key, "secret").unwrap();
        let tls = json!({ "connect_private_key": key });
        let text = json!({ "connect": { "endpoints": ["tls/router.example:7447"] },
                           "transport": { "link": { "tls": tls } } });
        std::fs::write(&file, text.to_string()).unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            client(&[], Some(&file), Wait::Ever)
        };
        let config = with_mode(0o640).unwrap();
        assert_eq!(endpoints(&config, "connect/endpoints"), ["tls/router.example:7447"]);
        assert!(with_mode(0o644).unwrap_err().to_string().contains("can be read by everybody"));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let refusal = |config: Result<Config>| format!("{:#}", config.unwrap_err());
        assert!(refusal(client(&[], None, Wait::Ever)).contains("name a Zenoh router"));
        for bare in ["127.0.0.1:7447", "/127.0.0.1:7447", "tcp/"].map(str::to_owned) {
            let said = refusal(client(std::slice::from_ref(&bare), None, Wait::Ever));
            assert!(said.starts_with(&format!("'{bare}' does not say how")), "{said}");
            assert_eq!(refusal(listener(&[bare], None)), said);
        }
        let nonsense = set(&mut Config::default(), "connect/endpoints", &json!(["nonsense"]));
        let said = format!("{:#}", nonsense.unwrap_err());
        assert!(said.contains("connect/endpoints") && said.contains("nonsense"), "{said}");
        assert!(!said.contains(".rs"), "a line of Zenoh's source helps nobody: {said}");
        let lacking = client(&[], Some(Path::new("/nonexistent.json5")), Wait::Ever);
        assert!(refusal(lacking).contains("/nonexistent.json5"));
    }
}
