//! Rejects requests that a foreign web page may have caused.
//!
//! Two attacks matter. In CSRF a page of another origin makes the browser send a request here. Such a request has a foreign `Origin` or
//! `Sec-Fetch-Site`, or it is a "simple request" of the Fetch standard, which needs no preflight and has one of three content types. In
//! DNS rebinding the attacker's host name points to this server; then `Host` is that name.

use std::net::IpAddr;

use hyper::{
    HeaderMap,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};

/// The reason why a request may come from a foreign page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignRequest {
    /// A page of another origin sent the request.
    #[error("the request comes from a web page of another origin; only the server's own page and programs may make it")]
    Page,
    /// `Host` is not a name of this server.
    #[error("{0:?} is not a name of this server; use its address, or add the name to access.hosts")]
    Host(String),
    /// The body may come from an HTML form.
    #[error("the body's Content-Type is {0:?}; send application/json (or text/csv for a table)")]
    Body(String),
}

/// Checks that no foreign page caused a request. `hosts` are the names of this server in addition to loopback; `None` accepts any name,
/// because over TLS the certificate has proven it. `has_effect` is false for requests that only read: a foreign page cannot see the response.
pub fn check_origin(has_effect: bool, headers: &HeaderMap, hosts: Option<&[String]>) -> Result<(), ForeignRequest> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let host = text(HOST.as_str()).unwrap_or_default();
    if hosts.is_some_and(|hosts| !is_own(&host, hosts)) || headers.get_all(HOST).iter().count() > 1 {
        return Err(ForeignRequest::Host(host));
    }
    if !has_effect {
        return Ok(());
    }
    let is_cross_site = text("sec-fetch-site").is_some_and(|site| !["none", "same-origin"].contains(&site.as_str()));
    let is_other_origin =
        |origin: String| origin.split_once("://").is_none_or(|(_, of)| !of.eq_ignore_ascii_case(&host));
    if is_cross_site || text(ORIGIN.as_str()).is_some_and(is_other_origin) {
        return Err(ForeignRequest::Page);
    }
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    let has_body = headers.contains_key("transfer-encoding")
        || text("content-length").is_some_and(|length| !length.trim_start_matches('0').is_empty());
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_accepted = essence == "text/csv" || essence == "application/json" || essence.ends_with("+json");
    if has_body && !is_accepted { Err(ForeignRequest::Body(kind)) } else { Ok(()) }
}

/// Returns true if `Host` is `localhost`, a loopback address, or one of these names.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) || hosts.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(has_effect: bool, headers: &[(&'static str, &str)]) -> Result<(), ForeignRequest> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        check_origin(has_effect, &headers, Some(&["fairway.example".to_owned()]))
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const BODY: (&str, &str) = ("content-length", "2");

    #[test]
    fn foreign_host_name_is_rejected() {
        for host in [
            "evil.example",
            "evil.example:8053",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "",
            "[",
        ] {
            for has_effect in [false, true] {
                assert_eq!(ask(has_effect, &[("host", host)]), Err(ForeignRequest::Host(host.to_owned())));
            }
        }
        for host in
            ["127.0.0.1:8053", "127.0.0.9", "[::1]:8053", "[::1]", "localhost:8053", "LOCALHOST", "fairway.example:80"]
        {
            assert_eq!(ask(true, &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(ask(false, &[]), Err(ForeignRequest::Host(String::new())));
        let any = check_origin(
            false,
            &[("host".parse().unwrap(), "any.example".parse().unwrap())].into_iter().collect(),
            None,
        );
        assert_eq!(any, Ok(()), "over TLS the certificate proves the name");
    }

    #[test]
    fn page_of_another_origin_cannot_write() {
        let host = ("host", "127.0.0.1:8053");
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9000", "http://127.0.0.1", "", "127.0.0.1:8053"]
        {
            assert_eq!(ask(true, &[host, JSON, BODY, ("origin", origin)]), Err(ForeignRequest::Page), "{origin}");
            assert_eq!(ask(true, &[host, ("origin", origin)]), Err(ForeignRequest::Page), "{origin}");
        }
        for site in ["cross-site", "same-site", "?"] {
            assert_eq!(ask(true, &[host, ("sec-fetch-site", site)]), Err(ForeignRequest::Page), "{site}");
        }
        let own = [host, JSON, BODY, ("origin", "http://127.0.0.1:8053"), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask(true, &own), Ok(()));
        assert_eq!(
            ask(false, &[host, ("origin", "http://evil.example")]),
            Ok(()),
            "a foreign page cannot read the response"
        );
    }

    #[test]
    fn form_body_is_rejected() {
        let host = ("host", "127.0.0.1:8053");
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=a",
            "",
            "application/jsonx",
        ] {
            let asked = ask(true, &[host, BODY, ("content-type", kind)]);
            assert_eq!(asked, Err(ForeignRequest::Body(kind.to_owned())));
        }
        assert!(ask(true, &[host, ("transfer-encoding", "chunked")]).is_err());
        for kind in ["application/json", "Application/JSON;charset=utf-8", "application/merge-patch+json", "text/csv"] {
            assert_eq!(ask(true, &[host, BODY, ("content-type", kind)]), Ok(()), "{kind}");
        }
        assert_eq!(ask(true, &[host, ("content-length", "0")]), Ok(()), "there is no body");
    }
}
