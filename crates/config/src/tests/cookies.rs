//! Keys of DNS cookies.

use fairway_model::Secret;
use fairway_zones::CookieKey;

use super::*;
use crate::CookieSettings;

const FIRST: &str = "e5e973e5a6b2a43f48e7dc849e37bfcf";
const SECOND: &str = "445536BCD2513298075a5d379663c962";

fn cookies(section: &str, keys: &str) -> Result<CookieSettings, Vec<String>> {
    let folder = Folder::new(&[("f.yaml", &format!("version: 1\n{section}\n")), ("keys", keys)]);
    let loaded = folder.load("f.yaml").map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(loaded.settings.cookies)
}

#[test]
fn cookies_are_on_by_default_and_can_be_switched_off() {
    for on in ["", "cookies: true", "cookies: {}"] {
        assert_eq!(cookies(on, ""), Ok(CookieSettings::OwnKey), "{on}");
    }
    for off in ["cookies: off", "cookies: false"] {
        assert_eq!(cookies(off, ""), Ok(CookieSettings::Off), "{off}");
    }
}

#[test]
fn challenge_is_on_by_default_and_can_be_switched_off() {
    let challenge = |section: &str| {
        let folder = Folder::new(&[("f.yaml", &format!("version: 1\n{section}\n"))]);
        folder.load("f.yaml").map(|loaded| loaded.settings.challenge).map_err(|errors| errors.len())
    };
    for on in ["", "evidence: {}", "evidence: { challenge: true }"] {
        assert_eq!(challenge(on), Ok(true), "{on}");
    }
    assert_eq!(challenge("evidence: { challenge: false }"), Ok(false));
    assert_eq!(challenge("evidence: { challenge: often }"), Err(1));
}

#[test]
fn keys_of_a_file_are_read_in_order_and_never_shown() {
    let keys = cookies("cookies: { keyFile: keys }", &format!("# current\n{FIRST}\n\n  {SECOND}  \n")).unwrap();
    let expected = [FIRST, SECOND].map(|key| CookieKey::from_hex(&Secret::new(key)).unwrap());
    assert_eq!(keys, CookieSettings::Keys(expected.into()));
    assert_eq!(format!("{keys:?}"), "Keys([[secret], [secret]])");
}

#[test]
fn key_files_with_errors_are_rejected_without_showing_keys() {
    for (text, expected) in [
        ("", "has no key"),
        (&FIRST[1..], "in line 1"),
        (&*format!("{FIRST}\n{FIRST}0"), "in line 2"),
        (&*format!("{FIRST}\n").repeat(5), "5 keys"),
    ] {
        let errors = cookies("cookies: { keyFile: keys }", text).unwrap_err();
        assert!(errors.len() == 1 && errors[0].contains(expected), "{errors:?}");
        assert!(!errors[0].contains(&FIRST[1..9]), "{errors:?}");
    }
    let errors = cookies("cookies: { keyFile: none }", "").unwrap_err();
    assert!(errors[0].contains("does not exist"), "{errors:?}");
}
