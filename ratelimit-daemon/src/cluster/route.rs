//! Finds the server of a store to write to: the configured one, the one that sentinels name, or the
//! one that a Redis Cluster redirects to.

use std::{collections::BTreeMap, path::Path, time::Duration};

use ratelimit_core::config::cluster::{Cluster, Store};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, TlsCertificates, aio::MultiplexedConnection,
    cmd,
};
use tokio::{task::JoinSet, time::timeout};

use super::{file, redis_connection::LinkError};

/// The timeout of a connection attempt.
const CONNECTING: Duration = Duration::from_secs(1);
/// The timeout of a call.
const DEADLINE: Duration = Duration::from_millis(1_200);
/// The total timeout for finding the store, with any number of hosts.
const FINDING: Duration = Duration::from_secs(3);
/// A Redis Cluster names the right server in one redirect.
const STEPS: usize = 3;

/// Two connections to a server, and its answer.
type Connected = (MultiplexedConnection, MultiplexedConnection, redis::Value);

/// The way to the servers of a store.
#[derive(Clone)]
pub struct Route {
    store: Store,
    certificates: TlsCertificates,
}

impl Route {
    /// The way to a store. Certificates and keys are read; without a `ca_file`, the authorities of
    /// the system count.
    pub async fn new(config: &Cluster) -> Result<Self, LinkError> {
        let client_tls = match &config.certificate {
            None => None,
            Some(certificate) => Some(ClientTlsConfig {
                client_cert: read("cert_file", &certificate.cert_file).await?,
                client_key: read("key_file", &certificate.key_file).await?,
            }),
        };
        let root_cert = match &config.ca_file {
            None => None,
            Some(path) => Some(read("ca_file", path).await?),
        };
        let certificates = TlsCertificates {
            client_tls,
            root_cert,
        };
        Ok(Self {
            store: config.store.clone(),
            certificates,
        })
    }

    /// Connects twice to the first server in order that answers and has the key of `probe`, and
    /// returns the answer. Asks all servers at the same time, so dead ones add no delay.
    pub async fn connect(&self, probe: &redis::Cmd) -> Result<Connected, LinkError> {
        let mut ways = JoinSet::new();
        for (place, host) in self.store.hosts().into_iter().enumerate() {
            let (route, host, probe) = (self.clone(), host.to_owned(), probe.clone());
            ways.spawn(async move { (place, route.ask(&host, &probe).await) });
        }
        timeout(FINDING, first(ways))
            .await
            .unwrap_or(Err(LinkError::Late))
    }

    /// Connects through one host.
    async fn ask(&self, host: &str, probe: &redis::Cmd) -> Result<Connected, LinkError> {
        let place = match self.store.service() {
            None => host.to_owned(),
            Some(service) => self.ask_sentinel(host, service).await?,
        };
        self.follow(place, probe).await
    }

    /// Connects where a server is, or where it says that the key is.
    async fn follow(&self, mut place: String, probe: &redis::Cmd) -> Result<Connected, LinkError> {
        for _ in 0..STEPS {
            let client = self.client(&self.store.expose(&place))?;
            let mut connection = self.open(&client).await?;
            match probe.query_async(&mut connection).await {
                Ok(answer) => return Ok((connection, self.open(&client).await?, answer)),
                Err(error) => match moved(&error) {
                    Some(other) => place = other,
                    None => return Err(error.into()),
                },
            }
        }
        Err(LinkError::Moved(place))
    }

    /// The master that a sentinel names.
    async fn ask_sentinel(&self, host: &str, service: &str) -> Result<String, LinkError> {
        let client = self.client(&self.store.sentinel(host))?;
        let mut connection = self.open(&client).await?;
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
        let master: Option<(String, u16)> = ask.query_async(&mut connection).await?;
        let unknown = || LinkError::Unknown(host.to_owned(), service.to_owned());
        let (address, port) = master.ok_or_else(unknown)?;
        Ok(place(&address, port))
    }

    async fn open(&self, client: &Client) -> Result<MultiplexedConnection, LinkError> {
        let connection = connect(client).await;
        connection.map_err(|error| {
            if self.store.is_tls() && error.is_timeout() {
                LinkError::NoTls
            } else {
                error.into()
            }
        })
    }

    fn client(&self, url: &str) -> Result<Client, LinkError> {
        Ok(if self.store.is_tls() {
            Client::build_with_tls(url, self.certificates.clone())?
        } else {
            Client::open(url)?
        })
    }
}

/// Returns the result of the first server in order, once those before it have failed.
async fn first(
    mut ways: JoinSet<(usize, Result<Connected, LinkError>)>,
) -> Result<Connected, LinkError> {
    let (mut answers, mut next) = (BTreeMap::new(), 0);
    let mut failure = LinkError::Nonsense("no host");
    while let Some(way) = ways.join_next().await {
        answers.extend(way);
        while let Some(answer) = answers.remove(&next) {
            match answer {
                Ok(connected) => return Ok(connected),
                Err(error) => failure = error,
            }
            next += 1;
        }
    }
    Err(failure)
}

/// A file of a key of `[cluster]`.
async fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, LinkError> {
    let read = file::read(path).await;
    read.map_err(|error| LinkError::File(key, path.to_owned(), error))
}

async fn connect(client: &Client) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTING))
        .set_response_timeout(Some(DEADLINE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Returns the server that a Redis Cluster names for the key.
fn moved(error: &redis::RedisError) -> Option<String> {
    let (other, _) = error.redirect_node()?;
    let (address, port) = other.rsplit_once(':')?;
    Some(place(address, port.parse().ok()?))
}

/// Formats host and port for an address.
fn place(address: &str, port: u16) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}
