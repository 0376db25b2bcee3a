//! Whether a request may come from a web page that somebody else wrote: browsers say where a request comes from, and this believes
//! nothing they do not say.
//!
//! Two attacks are meant. A page of another origin has the browser send a request here (CSRF): it carries an `Origin` that is not
//! ours, or a `Sec-Fetch-Site` that says so, or is one of the simple requests of the Fetch standard, which need no leave and have
//! one of three content types. And a name that is made to point here (DNS rebinding): then `Host` is that name.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};

/// Why a request is not believed to be the user's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// It is sent by a page of another origin.
    #[error("it comes from a page of another origin; this server takes writes of its own page and of programs")]
    Page,
    /// It is for another name.
    #[error("{0:?} is no name of this server; ask it by its address, or add the name to access.hosts")]
    Host(String),
    /// Its body may be that of a form.
    #[error("the body's Content-Type is {0:?}; send application/json (or text/csv for a table)")]
    Body(String),
}

/// Holds a request against where it comes from. `hosts` are the names of this server beside its addresses, none where any will
/// do: over TLS the certificate has proven the name.
pub fn is_foreign(method: &Method, headers: &HeaderMap, hosts: Option<&[String]>) -> Result<(), Foreign> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let host = text(HOST.as_str()).unwrap_or_default();
    if hosts.is_some_and(|hosts| !is_own(&host, hosts)) || headers.get_all(HOST).iter().count() > 1 {
        return Err(Foreign::Host(host));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_sent_by_other = text("sec-fetch-site").is_some_and(|site| !["none", "same-origin"].contains(&site.as_str()));
    let of_other = |origin: String| origin.split_once("://").is_none_or(|(_, of)| !of.eq_ignore_ascii_case(&host));
    if is_sent_by_other || text(ORIGIN.as_str()).is_some_and(of_other) {
        return Err(Foreign::Page);
    }
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    let has_body = headers.contains_key("transfer-encoding")
        || text("content-length").is_some_and(|length| !length.trim_start_matches('0').is_empty());
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_understood = essence == "text/csv" || essence == "application/json" || essence.ends_with("+json");
    if has_body && !is_understood { Err(Foreign::Body(kind)) } else { Ok(()) }
}

/// Whether a `Host` is this machine by its address, by its name among machines, or by one of these names.
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

    fn ask(method: Method, headers: &[(&'static str, &str)]) -> Result<(), Foreign> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        is_foreign(&method, &headers, Some(&["fairway.example".to_owned()]))
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const BODY: (&str, &str) = ("content-length", "2");

    #[test]
    fn a_name_that_was_made_to_point_here_gets_nothing() {
        for host in [
            "evil.example",
            "evil.example:8053",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "",
            "[",
        ] {
            for method in [Method::GET, Method::POST] {
                assert_eq!(ask(method, &[("host", host)]), Err(Foreign::Host(host.to_owned())));
            }
        }
        for host in
            ["127.0.0.1:8053", "127.0.0.9", "[::1]:8053", "[::1]", "localhost:8053", "LOCALHOST", "fairway.example:80"]
        {
            assert_eq!(ask(Method::POST, &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(ask(Method::GET, &[]), Err(Foreign::Host(String::new())));
        let any = is_foreign(
            &Method::GET,
            &[("host".parse().unwrap(), "any.example".parse().unwrap())].into_iter().collect(),
            None,
        );
        assert_eq!(any, Ok(()), "over TLS the certificate says who this is");
    }

    #[test]
    fn a_page_of_another_origin_cannot_write() {
        let host = ("host", "127.0.0.1:8053");
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9000", "http://127.0.0.1", "", "127.0.0.1:8053"]
        {
            assert_eq!(ask(Method::POST, &[host, JSON, BODY, ("origin", origin)]), Err(Foreign::Page), "{origin}");
            assert_eq!(ask(Method::DELETE, &[host, ("origin", origin)]), Err(Foreign::Page), "{origin}");
        }
        for site in ["cross-site", "same-site", "?"] {
            assert_eq!(ask(Method::POST, &[host, ("sec-fetch-site", site)]), Err(Foreign::Page), "{site}");
        }
        let own = [host, JSON, BODY, ("origin", "http://127.0.0.1:8053"), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask(Method::PUT, &own), Ok(()));
        assert_eq!(ask(Method::GET, &[host, ("origin", "http://evil.example")]), Ok(()), "it may not read the answer");
    }

    #[test]
    fn the_body_of_a_form_is_not_taken() {
        let host = ("host", "127.0.0.1:8053");
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=a",
            "",
            "application/jsonx",
        ] {
            let asked = ask(Method::POST, &[host, BODY, ("content-type", kind)]);
            assert_eq!(asked, Err(Foreign::Body(kind.to_owned())));
        }
        assert!(ask(Method::POST, &[host, ("transfer-encoding", "chunked")]).is_err());
        for kind in ["application/json", "Application/JSON;charset=utf-8", "application/merge-patch+json", "text/csv"] {
            assert_eq!(ask(Method::POST, &[host, BODY, ("content-type", kind)]), Ok(()), "{kind}");
        }
        assert_eq!(ask(Method::POST, &[host, ("content-length", "0")]), Ok(()), "nothing to mistake");
    }
}
