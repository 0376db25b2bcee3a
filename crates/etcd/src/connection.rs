//! A connection to one endpoint: TLS, token and the headers of each request.

use std::time::Duration;

use fairway_http::{Url, grpc_connector, tls};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{self, Channel, ClientTlsConfig, Identity},
};

use crate::{
    ErrorKind, Settings,
    error::with_sources,
    etcdserverpb::{
        AuthenticateRequest, auth_client::AuthClient, kv_client::KvClient, lease_client::LeaseClient,
        watch_client::WatchClient,
    },
};

/// A connection, cheap to clone. It connects when it is first used.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Transport);

pub(crate) type Transport = InterceptedService<Channel, Headers>;

/// Headers of each request.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    token: Option<MetadataValue<Ascii>>,
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // A server that has lost its leader says so at once instead of waiting for one.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

impl Connection {
    /// Prepares a connection; asks for a token if there is a user.
    pub(crate) async fn open(settings: &Settings, endpoint: &Url) -> Result<Self, ErrorKind> {
        let channel = channel(settings, endpoint).map_err(ErrorKind::Unavailable)?;
        let anonymous = InterceptedService::new(channel.clone(), Headers { token: None });
        let Some((name, password)) = &settings.user else { return Ok(Self(anonymous)) };
        let password = password.read_line().map_err(ErrorKind::Unavailable)?;
        let request = AuthenticateRequest { name: name.clone(), password };
        let token = AuthClient::new(anonymous).authenticate(request).await?.into_inner().token;
        let token =
            token.parse().map_err(|_| ErrorKind::Unavailable("the token cannot be sent in a header".to_owned()))?;
        Ok(Self(InterceptedService::new(channel, Headers { token: Some(token) })))
    }

    pub(crate) fn kv(self) -> KvClient<Transport> {
        KvClient::new(self.0).max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX)
    }

    pub(crate) fn lease(self) -> LeaseClient<Transport> {
        LeaseClient::new(self.0)
    }

    pub(crate) fn watch(self) -> WatchClient<Transport> {
        // An event holds the key's value.
        WatchClient::new(self.0).max_decoding_message_size(MESSAGE_MAX)
    }
}

fn channel(settings: &Settings, endpoint: &Url) -> Result<Channel, String> {
    let failed = |error: transport::Error| with_sources(&error);
    let mut channel = transport::Endpoint::from_shared(endpoint.origin().to_owned())
        .map_err(failed)?
        .connect_timeout(settings.endpoint_timeout)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(settings.endpoint_timeout.max(Duration::from_secs(1)))
        .keep_alive_while_idle(true);
    if endpoint.is_https() {
        channel = channel.tls_config(client_tls(settings)?).map_err(failed)?;
    }
    Ok(channel.connect_with_connector_lazy(grpc_connector()))
}

fn client_tls(settings: &Settings) -> Result<ClientTlsConfig, String> {
    let ca = settings.ca.as_ref().map(|ca| ca.read()).transpose()?;
    let roots = tls::roots(ca.as_ref().map(|ca| ca.expose())).map_err(|error| error.to_string())?;
    let tls = ClientTlsConfig::new().trust_anchors(roots.roots.clone());
    Ok(match &settings.identity {
        Some((certificate, key)) => {
            tls.identity(Identity::from_pem(certificate.read()?.expose(), key.read()?.expose()))
        }
        None => tls,
    })
}

/// Interval of HTTP/2 pings. etcd treats an interval under 5 s as an attack and closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Maximum size of a message. The store and the publisher ask for pages of about 4 MiB, and for fewer keys if they get more. A message
/// of empty keys takes 28 times its size once it is decoded (56 bytes for 2), so this bounds a hostile answer to 224 MiB.
pub(crate) const MESSAGE_MAX: usize = 8 << 20;
