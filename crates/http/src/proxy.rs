//! HTTP proxies, as the environment names them.

use std::{env, fmt};

use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::{SetupError, Url};

/// Proxies for outbound calls. A call to this machine never takes one, as with Go programs: a token that may be sent in clear to a
/// loopback address must not leave the machine.
#[derive(Clone, Default)]
pub struct Proxies {
    /// Proxy of `http` URLs.
    pub http: Option<String>,
    /// Proxy of `https` URLs, which tunnels with CONNECT.
    pub https: Option<String>,
    /// Hosts, domains and networks that are reached without proxy, with commas between them.
    pub no_proxy: String,
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or the same in lower case.
    pub fn from_env() -> Self {
        let read = |name: &str| {
            let value = env::var(name).or_else(|_| env::var(name.to_lowercase())).ok();
            value.filter(|value| !value.is_empty())
        };
        let all = read("ALL_PROXY");
        Self {
            http: read(HTTP).or_else(|| all.clone()),
            https: read(HTTPS).or(all),
            no_proxy: read("NO_PROXY").unwrap_or_default(),
        }
    }

    /// No proxies.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the rules that choose the proxy of a call.
    pub(crate) fn rules(&self) -> Result<Rules, SetupError> {
        let mut matcher = Matcher::builder().no(self.no_proxy.as_str());
        if let Some(url) = &self.http {
            matcher = matcher.http(checked(url, HTTP)?);
        }
        if let Some(url) = &self.https {
            matcher = matcher.https(checked(url, HTTPS)?);
        }
        Ok(Rules { matcher: matcher.build(), proxies: self.clone() })
    }
}

/// Proxies, checked.
pub(crate) struct Rules {
    matcher: Matcher,
    proxies: Proxies,
}

impl Rules {
    /// Returns the proxy for a call to this URL as the environment names it, perhaps with a password.
    pub(crate) fn secret_proxy_of(&self, url: &Url) -> Option<&str> {
        self.proxy_of(url)?;
        if url.is_https() { self.proxies.https.as_deref() } else { self.proxies.http.as_deref() }
    }

    /// Returns the proxy for a call to this URL, without its password.
    pub(crate) fn proxy_of(&self, url: &Url) -> Option<String> {
        let uri = url.to_string().parse().ok()?;
        let found: Intercept = if url.is_loopback() { None } else { self.matcher.intercept(&uri) }?;
        Some(found.uri().to_string().trim_end_matches('/').to_owned())
    }
}

/// Rejects values that the library would silently ignore, and so connect without a proxy: other schemes, and texts that are not URLs. The
/// error does not show the value, because it may contain a password.
fn checked<'a>(url: &'a str, variable: &'static str) -> Result<&'a str, SetupError> {
    let probe = Matcher::builder().http(url).build().intercept(&"http://host.invalid".parse().unwrap_or_default());
    let is_http = probe.is_some_and(|found| matches!(found.uri().scheme_str(), Some("http" | "https")));
    if is_http {
        Ok(url)
    } else {
        Err(SetupError(format!("{variable} is not the URL of an HTTP proxy; write it like http://proxy.example:3128")))
    }
}

/// Hides the proxies: their URLs may hold passwords.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").field("no_proxy", &self.no_proxy).finish_non_exhaustive()
    }
}

/// Hides the proxies: their URLs may hold passwords.
impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

const HTTP: &str = "HTTP_PROXY";
const HTTPS: &str = "HTTPS_PROXY";
