//! The grpc.health.v1 request of a probe: `Check` must return SERVING.
//!
//! HTTP/2 runs over the connection of the probe, and each of its tasks ends with the probe.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use hyper::{Request, Uri, client::conn::http2};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};
use tonic::{Code, Status, body::Body};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::{
    endpoint::{Phase, ProbeEndpoint},
    failure::{Failure, shortened},
};

/// Largest header list and largest message that are read, in bytes. A health response has a few bytes.
const MESSAGE_MAX: usize = 16 * 1024;

/// The request of a gRPC check.
#[derive(Debug)]
pub(super) struct GrpcProbe {
    /// `service` of the request.
    pub(super) service: String,
    /// `https` or `http`, for `:scheme`.
    pub(super) scheme: &'static str,
    /// Name for `:authority`; default the probed address.
    pub(super) authority: Option<String>,
}

impl GrpcProbe {
    /// Sends the request over `stream` and checks the response.
    pub(super) async fn run<S>(&self, stream: S, endpoint: ProbeEndpoint<'_>, phase: &mut Phase) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        *phase = Phase::Response;
        let tasks = Tasks::default();
        let (mut sender, connection) = http2::Builder::new(tasks.spawner())
            .max_header_list_size(u32::try_from(MESSAGE_MAX).unwrap_or(u32::MAX))
            .initial_stream_window_size(Some(u32::try_from(4 * MESSAGE_MAX).unwrap_or(u32::MAX)))
            .handshake::<_, Body>(TokioIo::new(stream))
            .await
            .map_err(|error| Failure::of(&error))?;
        hyper::rt::Executor::execute(&tasks.spawner(), connection);
        let origin = self.origin(endpoint)?;
        let request = HealthCheckRequest { service: self.service.clone() };
        let service = tower::service_fn(move |request: Request<Body>| sender.send_request(request));
        let answer =
            HealthClient::with_origin(service, origin).max_decoding_message_size(MESSAGE_MAX).check(request).await;
        match answer {
            Ok(answer) => match answer.into_inner().status() {
                ServingStatus::Serving => Ok(()),
                status => Err(Failure::target(format!("gRPC health {}", status.as_str_name()))),
            },
            Err(status) => Err(of_status(&status)),
        }
    }

    fn origin(&self, endpoint: ProbeEndpoint<'_>) -> Result<Uri, Failure> {
        let port = endpoint.address.port();
        // The default port is included, as gRPC clients do.
        let authority = self.authority.as_ref().map_or_else(|| endpoint.authority(0), |name| format!("{name}:{port}"));
        Uri::builder()
            .scheme(self.scheme)
            .authority(authority)
            .path_and_query("/")
            .build()
            .map_err(|error| Failure::target(shortened(&format!("address cannot be used for gRPC: {error}"))))
    }
}

/// Returns the failure of a gRPC status: that of the connection if one caused it, else its code.
fn of_status(status: &Status) -> Failure {
    if let Some(cause) = std::error::Error::source(status) {
        return Failure::of(cause);
    }
    let code = match status.code() {
        Code::NotFound => return Failure::target("gRPC health: service unknown to the target"),
        Code::Unimplemented => return Failure::target("gRPC health: not offered by the target"),
        code => code,
    };
    match status.message() {
        "" => Failure::target(format!("gRPC {code:?}")),
        message => Failure::target(shortened(&format!("gRPC {code:?}: {message}"))),
    }
}

/// Owns the tasks of one HTTP/2 connection. Dropping it ends them and closes the socket.
#[derive(Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    /// Returns the executor for hyper. It does not own the tasks: a task that owns its own set would never end.
    fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }
}

#[derive(Clone)]
struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future + Send + 'static,
{
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.upgrade() {
            let task = async {
                task.await;
            };
            tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
        }
    }
}
