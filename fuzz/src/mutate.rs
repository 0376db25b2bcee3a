//! Mutations of bytes and of text that do not depend on the format.

use crate::rng::Rng;

/// Longest input that mutation makes.
pub const INPUT_MAX: usize = 16 * 1024;

/// Makes one to eight small changes: changes bits and bytes, and cuts, repeats, moves or inserts parts.
pub fn octets(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..1 + rng.below(8) {
        change(rng, &mut out, other);
    }
    out.truncate(INPUT_MAX);
    out
}

fn change(rng: &mut Rng, out: &mut Vec<u8>, other: &[u8]) {
    let at = rng.below(out.len() + 1);
    let to = at + rng.below((out.len() - at).min(32) + 1);
    match rng.below(8) {
        0 if at < out.len() => out[at] ^= 1 << rng.below(8),
        1 if at < out.len() => out[at] = rng.octet(),
        2 => out.insert(at, rng.octet()),
        3 => drop(out.drain(at..to)),
        4 => {
            let piece = out[at..to].to_vec();
            let times = 1 + if rng.one_in(16) { rng.below(200) } else { rng.below(3) };
            out.splice(at..at, piece.repeat(times));
        }
        5 if at + 1 < out.len() => {
            let word = u16::from_be_bytes([out[at], out[at + 1]]);
            let word = word.wrapping_add([1, 0xffff, 0x100, 0x8000][rng.below(4)]);
            out[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
        6 => {
            let from = rng.below(other.len() + 1);
            let until = from + rng.below((other.len() - from).min(64) + 1);
            out.splice(at..to, other[from..until].iter().copied());
        }
        _ => out.truncate(if rng.one_in(8) { at } else { out.len() }),
    }
}

/// Makes changes after which a text is often still valid: moves lines and words, and inserts words of the target's language.
pub fn text(rng: &mut Rng, input: &[u8], other: &[u8], words: &[&str]) -> Vec<u8> {
    if rng.one_in(4) {
        return octets(rng, input, other);
    }
    let mut lines: Vec<Vec<u8>> = input.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 + rng.below(4) {
        change_line(rng, &mut lines, other, words);
    }
    let mut out = lines.concat();
    out.truncate(INPUT_MAX);
    out
}

fn change_line(rng: &mut Rng, lines: &mut Vec<Vec<u8>>, other: &[u8], words: &[&str]) {
    let at = rng.below(lines.len() + 1);
    match rng.below(6) {
        0 if at < lines.len() => drop(lines.remove(at)),
        1 if at < lines.len() => lines.insert(at, lines[at].clone()),
        2 => {
            let theirs: Vec<_> = other.split_inclusive(|b| *b == b'\n').collect();
            lines.extend((!theirs.is_empty()).then(|| rng.pick(&theirs).to_vec()));
        }
        _ if at < lines.len() => change_word(rng, &mut lines[at], words),
        _ => lines.push(format!("{} {}\n", rng.pick(words), rng.pick(words)).into_bytes()),
    }
}

fn change_word(rng: &mut Rng, line: &mut Vec<u8>, words: &[&str]) {
    let ends: Vec<_> = (0..=line.len()).filter(|i| *i == line.len() || line[*i] == b' ').collect();
    let end = *rng.pick(&ends);
    let start = line[..end].iter().rposition(|b| *b == b' ').map_or(0, |p| p + 1);
    let word = rng.pick(words).as_bytes();
    match rng.below(4) {
        0 => drop(line.drain(start..end)),
        1 => drop(line.splice(start..end, word.iter().copied())),
        2 => drop(line.splice(end..end, [&b" "[..], word].concat())),
        _ => {
            let piece = line[start..end].to_vec();
            let times = 1 + if rng.one_in(8) { rng.below(300) } else { rng.below(3) };
            line.splice(end..end, piece.repeat(times));
        }
    }
}
