//! The examples of RFC 9018 appendix A, and each rule of sections 4 and 5.

use super::*;

const KEY: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
/// Keys of appendix A.4: before and after the roll-over.
const OLD_KEY: &str = "dd3bdf9344b678b185a6f5cb60fca715";
const NEW_KEY: &str = "445536bcd2513298075a5d379663c962";
const CLIENT: &str = "2464c4abcf10c957";
const SERVER: &str = "010000005cf79f111f8130c3eee29480";
const ADDRESS: &str = "198.51.100.100";
/// Time of [`SERVER`].
const MADE: u64 = 1_559_731_985;

fn keys(keys: &[&str]) -> CookieKeys {
    CookieKeys::Listed(keys.iter().map(|key| CookieKey::from_hex(&Secret::new(*key)).unwrap()).collect())
}

fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the status of a cookie, and the cookie of the response.
fn answer(keys: &CookieKeys, cookie: &str, address: &str, now: u64) -> (CookieStatus, String) {
    let query = QueryCookie::read(&octets(cookie)).unwrap();
    let cookie = keys.answer(&query, address.parse().unwrap(), Now(now)).unwrap();
    (cookie.status, hex(&cookie.octets))
}

#[test]
fn example_of_a_new_cookie_is_met() {
    let expected = (CookieStatus::New, format!("{CLIENT}{SERVER}"));
    assert_eq!(answer(&keys(&[KEY]), CLIENT, ADDRESS, MADE), expected);
}

#[test]
fn example_of_a_renewed_cookie_is_met() {
    let expected = (CookieStatus::Valid, format!("{CLIENT}010000005cf7a871d4a564a1442aca77"));
    assert_eq!(answer(&keys(&[KEY]), &format!("{CLIENT}{SERVER}"), ADDRESS, 1_559_734_385), expected);
}

#[test]
fn example_with_reserved_octets_is_met() {
    let (cookie, address) = ("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5", "203.0.113.203");
    // Within its hour it is valid, and goes back with reserved octets of 0.
    let (status, renewed) = answer(&keys(&[KEY]), cookie, address, 1_559_727_986);
    assert_eq!((status, &renewed[..24]), (CookieStatus::Valid, "fc93fc62807ddb8601000000"));
    // In the example almost two hours have passed.
    let (status, renewed) = answer(&keys(&[KEY]), cookie, address, 1_559_734_700);
    assert_eq!((status, &*renewed), (CookieStatus::Bad, "fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"));
}

#[test]
fn example_of_a_key_that_was_rolled_over_is_met() {
    let (cookie, address) = ("22681ab97d52c298010000005cf7c57926556bd0934c72f8", "2001:db8:220:1:59de:d0f4:8769:82b8");
    let expected = (CookieStatus::Valid, "22681ab97d52c298010000005cf7c609a6bb79d16625507a".to_owned());
    assert_eq!(answer(&keys(&[NEW_KEY, OLD_KEY]), cookie, address, 1_559_741_961), expected);
    assert_eq!(answer(&keys(&[NEW_KEY]), cookie, address, 1_559_741_961).0, CookieStatus::Bad, "once it is removed");
    // The next key is listed last before it comes into use: it is accepted already.
    let (_, made) = answer(&keys(&[NEW_KEY]), "22681ab97d52c298", address, 1_559_741_961);
    assert_eq!(answer(&keys(&[OLD_KEY, NEW_KEY]), &made, address, 1_559_741_962).0, CookieStatus::Valid);
}

#[test]
fn age_decides_between_kept_renewed_and_bad() {
    let sent = format!("{CLIENT}{SERVER}");
    for (age, status, is_kept) in [
        (-301, CookieStatus::Bad, false),
        (-300, CookieStatus::Valid, false),
        (-1, CookieStatus::Valid, false),
        (0, CookieStatus::Valid, true),
        (1_800, CookieStatus::Valid, true),
        (1_801, CookieStatus::Valid, false),
        (3_600, CookieStatus::Valid, false),
        (3_601, CookieStatus::Bad, false),
        // Half of the 32 bits away.
        (1 << 31, CookieStatus::Bad, false),
    ] {
        let now = MADE.checked_add_signed(age).unwrap();
        let (found, returned) = answer(&keys(&[KEY]), &sent, ADDRESS, now);
        assert_eq!((found, returned == sent), (status, is_kept), "age {age}");
        assert_eq!(
            answer(&keys(&[KEY]), &returned, ADDRESS, now),
            (CookieStatus::Valid, returned.clone()),
            "age {age}"
        );
    }
}

#[test]
fn cookie_that_differs_in_any_octet_or_address_is_bad() {
    let (keys, sent) = (keys(&[KEY]), octets(&format!("{CLIENT}{SERVER}")));
    for at in 0..sent.len() {
        for bit in 0..8 {
            let mut changed = sent.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(answer(&keys, &hex(&changed), ADDRESS, MADE).0, CookieStatus::Bad, "octet {at}, bit {bit}");
        }
    }
    for address in ["198.51.100.101", "2001:db8::1", "::ffff:198.51.100.100"] {
        assert_eq!(answer(&keys, &hex(&sent), address, MADE).0, CookieStatus::Bad, "{address}");
    }
}

#[test]
fn length_decides_what_a_cookie_is() {
    for length in 0..=64 {
        let read = QueryCookie::read(&vec![1; length]).map(|cookie| cookie.server);
        let expected = match length {
            8 => Some(ServerPart::None),
            24 => Some(ServerPart::Standard([1; 16])),
            16..=40 => Some(ServerPart::Foreign),
            _ => None,
        };
        assert_eq!(read, expected, "{length} octets");
    }
}

#[test]
fn keys_are_hexadecimal_and_never_shown() {
    for text in ["", "e5e973e5", "e5e973e5a6b2a43f48e7dc849e37bfc", "+5e973e5a6b2a43f48e7dc849e37bfcf"] {
        assert_eq!(CookieKey::from_hex(&Secret::new(text)), None, "{text:?}");
    }
    assert_eq!(format!("{:?}", keys(&[KEY])), "Listed([[secret]])");
}

#[test]
fn server_key_is_off_until_it_is_set_and_then_fixed() {
    let (key, query) = (ServerCookieKey::default(), QueryCookie::read(&octets(CLIENT)).unwrap());
    let keys = CookieKeys::OfServer(key.clone());
    assert_eq!(keys.answer(&query, ADDRESS.parse().unwrap(), Now(MADE)), None);
    key.set(CookieKey::from_hex(&Secret::new(KEY)).unwrap());
    key.set(CookieKey::from_hex(&Secret::new(NEW_KEY)).unwrap());
    assert_eq!(answer(&keys, CLIENT, ADDRESS, MADE).1, format!("{CLIENT}{SERVER}"));
}
