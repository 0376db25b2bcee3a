//! The outbound HTTP client of Fairway, the trust anchors it checks servers against, and the type of a URL.
//!
//! Every outbound call except a probe goes through [`Client`]. A probe needs its own socket, a reset instead of a close and a bound
//! on each read, so `health` keeps its own HTTP and shares [`tls`] only.
#![forbid(unsafe_code)]

mod client;
mod error;
mod proxy;
mod resolver;
#[cfg(any(test, feature = "test-util"))]
pub mod test_util;
pub mod tls;
mod url;

pub use client::{Client, Options, Request, Response, Route};
pub use error::{Failure, HttpError, SetupError};
pub use proxy::Proxies;
/// Methods, statuses and headers of HTTP, and the bytes of a body; the types that hyper and axum use.
pub use reqwest::{Method, StatusCode, header};
pub use resolver::{SystemResolver, grpc_connector};
pub use tls::Tls;
pub use url::{Url, UrlError, encode};

#[cfg(test)]
mod tests;
