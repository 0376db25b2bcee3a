//! LOC: a position on the earth (RFC 1876), in integers: thousandths of a second of arc, and centimetres.

use super::{
    codec::Malformed,
    words::{Words, refuse},
};
use crate::{diagnostics::TextError, lexer::Word};

/// The equator and the prime meridian in wire form, in thousandths of a second of arc.
const CENTRE: i64 = 1 << 31;
/// Altitude of the reference spheroid in wire form: altitudes count from 100 km below it, in centimetres.
const BASE: i64 = 10_000_000;
/// One degree in thousandths of a second of arc.
const DEGREE: i64 = 3_600_000;

/// Checks the version (0), the digits of sizes (0 to 9), the latitude (up to 90 degrees) and the longitude (up to 180 degrees).
pub(super) fn check(rest: &[u8]) -> Result<usize, Malformed> {
    let Some(value) = rest.first_chunk::<16>() else { return Err("the data ends inside the position") };
    if value[0] != 0 {
        return Err("unsupported LOC version; expected 0");
    }
    if value[1..4].iter().any(|power| power >> 4 > 9 || power & 15 > 9) {
        return Err("a size or precision has a digit over 9");
    }
    if (at(value, 4) - CENTRE).abs() > 90 * DEGREE || (at(value, 8) - CENTRE).abs() > 180 * DEGREE {
        return Err("the latitude or longitude is out of range");
    }
    Ok(16)
}

fn at(value: &[u8; 16], offset: usize) -> i64 {
    i64::from(u32::from_be_bytes([value[offset], value[offset + 1], value[offset + 2], value[offset + 3]]))
}

pub(super) fn read(words: &mut Words<'_, '_>) -> Result<(), TextError> {
    let latitude = angle(words, b'N', b'S', 90)?;
    let longitude = angle(words, b'E', b'W', 180)?;
    let word = words.need("an altitude")?;
    let altitude = metres(word.text, -BASE, i64::from(u32::MAX) - BASE)
        .ok_or_else(|| refuse(word, "an altitude in metres like -12.5m"))?;
    // Defaults of size and precisions (RFC 1876 section 3).
    let mut powers = [0x12, 0x16, 0x13];
    for power in &mut powers {
        let Some(word) = words.next()? else { break };
        let length = metres(word.text, 0, 9_000_000_000).ok_or_else(|| refuse(word, "a length like 10m"))?;
        *power = power_of_ten(length);
    }
    words.out.push(0);
    words.out.extend_from_slice(&powers);
    for number in [latitude + CENTRE, longitude + CENTRE, altitude + BASE] {
        words.out.extend_from_slice(&number.to_be_bytes()[4..]);
    }
    Ok(())
}

/// Reads degrees, minutes, seconds and the direction. Minutes and seconds are optional.
fn angle(words: &mut Words<'_, '_>, plus: u8, minus: u8, degrees_max: i64) -> Result<i64, TextError> {
    let mut total = 0;
    for (index, unit) in [DEGREE, 60_000, 1_000, 0].into_iter().enumerate() {
        let word = words.need("degrees, minutes, seconds and N, S, E or W")?;
        if index > 0 {
            if word.text.eq_ignore_ascii_case(&[plus]) {
                return Ok(total);
            }
            if word.text.eq_ignore_ascii_case(&[minus]) {
                return Ok(-total);
            }
        }
        let part = match index {
            0 => decimal(word.text, 0).filter(|d| (0..=degrees_max).contains(d)).map(|d| d * unit),
            1 => decimal(word.text, 0).filter(|m| (0..60).contains(m)).map(|m| m * unit),
            2 => decimal(word.text, 3).filter(|s| (0..60_000).contains(s)),
            _ => None,
        };
        total += part.ok_or_else(|| angle_error(word, index, plus, minus, degrees_max))?;
        if total > degrees_max * DEGREE {
            return Err(angle_error(word, 0, plus, minus, degrees_max));
        }
    }
    Ok(total)
}

fn angle_error(word: Word<'_>, index: usize, plus: u8, minus: u8, degrees_max: i64) -> TextError {
    let side = format!("{} or {}", char::from(plus), char::from(minus));
    match index {
        0 => refuse(word, &format!("an angle of 0 to {degrees_max} degrees")),
        1 => refuse(word, &format!("minutes from 0 to 59, or {side}")),
        2 => refuse(word, &format!("seconds from 0 to 59.999, or {side}")),
        _ => refuse(word, &side),
    }
}

/// Reads metres with up to two decimals and an optional `m`. Returns centimetres.
fn metres(text: &[u8], min: i64, max: i64) -> Option<i64> {
    let number = text.strip_suffix(b"m").or_else(|| text.strip_suffix(b"M")).unwrap_or(text);
    decimal(number, 2).filter(|cm| (min..=max).contains(cm))
}

/// Reads a decimal number with at most `places` decimals. Returns it multiplied by 10 to the power of `places`.
fn decimal(text: &[u8], places: usize) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix(b"+").unwrap_or(text)),
    };
    let point = digits.iter().position(|o| *o == b'.').unwrap_or(digits.len());
    let fraction = digits.get(point + 1..).unwrap_or_default();
    if point == 0 || fraction.len() > places || digits.len() > 12 {
        return None;
    }
    let zeros = std::iter::repeat_n(&b'0', places - fraction.len());
    let number = digits[..point]
        .iter()
        .chain(fraction)
        .chain(zeros)
        .try_fold(0i64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))?;
    Some(if negative { -number } else { number })
}

/// Returns centimetres as one digit and a power of ten, rounded down.
fn power_of_ten(mut length: i64) -> u8 {
    let mut power = 0;
    while length > 9 {
        length /= 10;
        power += 1;
    }
    length.to_le_bytes()[0] << 4 | power
}

pub(super) fn write(value: &[u8], out: &mut String) -> Option<()> {
    check(value).ok()?;
    let value = value.first_chunk::<16>()?;
    for (offset, sides) in [(4, ['N', 'S']), (8, ['E', 'W'])] {
        let angle = at(value, offset) - CENTRE;
        let side = sides[usize::from(angle < 0)];
        let angle = angle.abs();
        let (seconds, thousandths) = (angle / 1000 % 60, angle % 1000);
        out.push_str(&format!("{} {} {seconds}.{thousandths:03} {side} ", angle / DEGREE, angle / 60_000 % 60));
    }
    let altitude = at(value, 12) - BASE;
    let sign = if altitude < 0 { "-" } else { "" };
    out.push_str(&format!("{sign}{}.{:02}m", altitude.abs() / 100, altitude.abs() % 100));
    for power in &value[1..4] {
        let length = u64::from(power >> 4) * 10u64.pow(u32::from(power & 15));
        out.push_str(&format!(" {}.{:02}m", length / 100, length % 100));
    }
    Some(())
}
