//! The trace that a request belongs to, from its headers: W3C Trace Context, else B3.
//!
//! A malformed header counts as absent (W3C Trace Context section 4.3), and the next format is tried. The SDK's propagator accepts texts
//! that the recommendation rejects, so the headers are parsed here.

use fairway_http::header::HeaderMap;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Returns the span that sent the request.
pub(super) fn parent(headers: &HeaderMap) -> Option<SpanContext> {
    w3c(headers).or_else(|| b3_single(headers)).or_else(|| b3_multi(headers))
}

/// Reads `traceparent: 00-TRACE-SPAN-FLAGS`, and `tracestate`.
fn w3c(headers: &HeaderMap) -> Option<SpanContext> {
    let text = one(headers, "traceparent")?;
    let (version, rest) = text.split_at_checked(2)?;
    let version = hex(version, 2)?;
    // Later versions may add fields after a dash; version 0 does not (section 3.2.2.1). 255 is invalid.
    let known = rest.get(..53)?;
    if version == 255 || (rest.len() > 53 && (version == 0 || rest.as_bytes()[53] != b'-')) {
        return None;
    }
    let mut parts = known.strip_prefix('-')?.split('-');
    let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let is_sampled = hex(flags, 2)? & 1 == 1;
    if parts.next().is_some() {
        return None;
    }
    // Several lines are one list (section 3.3.1.1); a malformed one is dropped, and the trace goes on (section 3.3.1).
    let state = headers.get_all("tracestate").iter().map(|value| value.to_str().ok()).collect::<Option<Vec<_>>>();
    let state = state.and_then(|lines| lines.join(",").parse::<TraceState>().ok()).unwrap_or_default();
    known_as(trace_of(trace, false)?, span, is_sampled, state)
}

/// Reads `b3: TRACE-SPAN[-SAMPLED[-PARENT]]`; a decision alone names no trace.
fn b3_single(headers: &HeaderMap) -> Option<SpanContext> {
    let mut parts = one(headers, "b3")?.split('-');
    let (trace, span, sampled, above) = (parts.next()?, parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() || above.is_some_and(|above| hex(above, 16).is_none()) {
        return None;
    }
    known_as(trace_of(trace, true)?, span, is_sampled(sampled)?, TraceState::default())
}

/// Reads `X-B3-TraceId`, `X-B3-SpanId`, `X-B3-Sampled`, `X-B3-Flags`.
fn b3_multi(headers: &HeaderMap) -> Option<SpanContext> {
    let (trace, span) = (one(headers, "x-b3-traceid")?, one(headers, "x-b3-spanid")?);
    let is_debugged = one(headers, "x-b3-flags") == Some("1");
    let is_sampled = is_debugged || is_sampled(one(headers, "x-b3-sampled"))?;
    known_as(trace_of(trace, true)?, span, is_sampled, TraceState::default())
}

/// Returns the sampling decision of B3: `d` is debug, which means yes. Without a decision it is ours: a client that names a trace wants
/// to see it.
fn is_sampled(word: Option<&str>) -> Option<bool> {
    match word {
        None | Some("1" | "d" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) => None,
    }
}

fn known_as(trace: u128, span: &str, is_sampled: bool, state: TraceState) -> Option<SpanContext> {
    let span = u64::try_from(hex(span, 16)?).ok()?;
    let flags = if is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let context = SpanContext::new(TraceId::from(trace), SpanId::from(span), flags, true, state);
    // All zeros are no id.
    context.is_valid().then_some(context)
}

/// Returns the id of a trace; B3 also has short ones, which are the lower half.
fn trace_of(text: &str, may_be_short: bool) -> Option<u128> {
    hex(text, 32).or_else(|| hex(text, 16).filter(|_| may_be_short))
}

/// Parses this many hexadecimal digits in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_sound = text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    is_sound.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Returns the value of a header that occurs once: of two it is unknown which one counts.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?.to_str().ok()?.trim();
    all.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use fairway_http::header::{HeaderName, HeaderValue};

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(headers: &[(&'static str, &str)]) -> Option<(String, String, bool, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let found = parent(&map)?;
        assert!(found.is_remote());
        let (trace, span) = (found.trace_id().to_string(), found.span_id().to_string());
        Some((trace, span, found.is_sampled(), found.trace_state().header()))
    }

    fn known(is_sampled: bool, state: &str) -> Option<(String, String, bool, String)> {
        Some((TRACE.to_owned(), SPAN.to_owned(), is_sampled, state.to_owned()))
    }

    #[test]
    fn trace_is_continued_from_each_format() {
        let w3c = |rest: &str| format!("00-{TRACE}-{SPAN}-{rest}");
        assert_eq!(of(&[("traceparent", &w3c("01"))]), known(true, ""));
        assert_eq!(of(&[("traceparent", &w3c("00"))]), known(false, ""));
        assert_eq!(of(&[("traceparent", &w3c("ff"))]), known(true, ""), "flags that are not known are left alone");
        let state = [("traceparent", &*w3c("01")), ("tracestate", "a=1"), ("tracestate", "b=2")];
        assert_eq!(of(&state), known(true, "a=1,b=2"));
        assert_eq!(of(&[("traceparent", &w3c("01")), ("tracestate", "no state")]), known(true, ""));
        let later = format!("cc-{TRACE}-{SPAN}-01-what-comes");
        assert_eq!(of(&[("traceparent", &later)]), known(true, ""), "a later version says more");
        for sampled in ["-1", "-d", "", "-1-05e3ac9a4f6e3b90"] {
            assert_eq!(of(&[("b3", &format!("{TRACE}-{SPAN}{sampled}"))]), known(true, ""), "{sampled}");
        }
        assert_eq!(of(&[("b3", &format!("{TRACE}-{SPAN}-0"))]), known(false, ""));
        let multi = [("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)];
        assert_eq!(of(&[multi[0], multi[1], ("x-b3-sampled", "1")]), known(true, ""));
        assert_eq!(of(&[multi[0], multi[1], ("x-b3-sampled", "0")]), known(false, ""));
        assert_eq!(of(&[multi[0], multi[1], ("x-b3-sampled", "0"), ("x-b3-flags", "1")]), known(true, ""));
        let short = of(&[("b3", &format!("a3ce929d0e0e4736-{SPAN}-1"))]).unwrap();
        assert_eq!(short.0, "0000000000000000a3ce929d0e0e4736");
    }

    #[test]
    fn malformed_header_counts_as_absent() {
        let zero = "0".repeat(32);
        let upper = TRACE.to_uppercase();
        for text in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("cc-{TRACE}-{SPAN}-01x"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{zero}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{TRACE}é-{SPAN}-01"),
        ] {
            assert_eq!(of(&[("traceparent", &text)]), None, "{text}");
        }
        let sound = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(of(&[("traceparent", &sound), ("traceparent", &sound)]), None, "which of two counts?");
        for text in ["0", "1", "d", TRACE, &format!("{TRACE}-{SPAN}-2"), &format!("{TRACE}-{SPAN}-1-x"), "a-b-c-d-e"] {
            assert_eq!(of(&[("b3", text)]), None, "{text}");
        }
        assert_eq!(of(&[("x-b3-traceid", TRACE), ("x-b3-sampled", "1")]), None);
        assert_eq!(of(&[("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN), ("x-b3-sampled", "maybe")]), None);
    }

    #[test]
    fn w3c_comes_first_and_a_malformed_one_does_not_hide_b3() {
        let other = format!("{}-{SPAN}-0", "1".repeat(32));
        assert_eq!(of(&[("traceparent", &format!("00-{TRACE}-{SPAN}-01")), ("b3", &other)]), known(true, ""));
        assert_eq!(of(&[("traceparent", "broken"), ("b3", &format!("{TRACE}-{SPAN}-1"))]), known(true, ""));
        assert_eq!(of(&[("b3", "0"), ("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)]), known(true, ""));
    }
}
