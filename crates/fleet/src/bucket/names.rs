//! Addresses of servers. The C library's look-up loads modules that `/etc/nsswitch.conf` names, which ends a program
//! that is linked statically, as that of `make dist`, where they are of another version (docs/install.md).

use hickory_resolver::Resolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use object_store::client::{DnsFuture, DnsResolver};

/// From `/etc/hosts`, and from the servers of `/etc/resolv.conf`.
#[derive(Debug)]
pub struct Names;

impl DnsResolver for Names {
    fn resolve(&self, host: &str) -> DnsFuture {
        let host = host.to_owned();
        Box::pin(async move {
            // Read for each connection: a machine gets other servers while a shipper runs.
            let of_machine = Resolver::builder_tokio();
            let without_servers = |_| {
                Resolver::builder_with_config(
                    ResolverConfig::default(),
                    TokioRuntimeProvider::default(),
                )
            };
            let resolver = of_machine.unwrap_or_else(without_servers).build()?;
            Ok(resolver.lookup_ip(host).await?.iter().collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(host: &str) -> Result<Vec<std::net::IpAddr>, object_store::client::DnsError> {
        crate::bucket::runtime().unwrap().block_on(Names.resolve(host))
    }

    #[test]
    fn this_machine_is_found_and_what_is_no_name_is_an_error() {
        let found = resolved("localhost").unwrap();
        assert!(!found.is_empty() && found.iter().all(std::net::IpAddr::is_loopback), "{found:?}");
        assert!(resolved("a..b").is_err());
    }
}
