//! Keys of DNS cookies.

use fairway_model::Secret;
use fairway_zones::CookieKey;

use super::Converter;
use crate::{CookieSettings, bounds_wire::Plain, reason::Reason, v1_abuse};

/// Largest number of keys in a file: previous, current and next, and one more for a roll-over that is interrupted.
const KEYS_MAX: usize = 4;

/// Converts the section, and reads its file.
pub(super) fn cookies(converter: &mut Converter<'_, '_>, wire: Option<v1_abuse::Cookies>) -> CookieSettings {
    let file = match wire {
        Some(v1_abuse::Cookies::Switch(false) | v1_abuse::Cookies::Off(_)) => return CookieSettings::Off,
        None | Some(v1_abuse::Cookies::Switch(true)) => None,
        Some(v1_abuse::Cookies::On(settings)) => settings.key_file.plain(),
    };
    let Some(file) = file else { return CookieSettings::OwnKey };
    let path = converter.path(POINTER, &file);
    let keys = converter.context.secret(&path).and_then(|text| read(&text));
    keys.map(|keys| CookieSettings::Keys(keys.into())).unwrap_or_else(|why| {
        converter.reject(POINTER, why.about(&path));
        CookieSettings::OwnKey
    })
}

const POINTER: &str = "/cookies/keyFile";
const HINT: &str = "write one key per line, made with: openssl rand -hex 16";

/// Parses the keys of a file. Blank lines and lines that begin with `#` are skipped. Errors never show a key.
fn read(text: &Secret) -> Result<Vec<CookieKey>, Reason> {
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.expose().lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = CookieKey::from_hex(&Secret::new(line));
        keys.push(
            key.ok_or_else(|| Reason::new(format!("has no key of 32 hexadecimal digits in line {number}"), HINT))?,
        );
    }
    match keys.len() {
        0 => Err(Reason::new("has no key", HINT)),
        count if count > KEYS_MAX => {
            let what = format!("has {count} keys, and at most {KEYS_MAX} are allowed");
            Err(Reason::new(what, "remove the oldest ones: each accepted key costs a hash per invalid cookie"))
        }
        _ => Ok(keys),
    }
}
