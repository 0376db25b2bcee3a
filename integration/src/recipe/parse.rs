//! Reads the text of a recipe. Errors have the line.

use fairway_model::{Name, Rtype};

use super::{Expect, Recipe, SizeLimit, State, Step, expect::rcode_number};
use crate::{present::unhex, query::Query};

impl Recipe {
    /// Reads a recipe; an error has the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut recipe = Self::default();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let place = |fault: String| format!("{}: {fault}", index + 1);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            match word {
                "zone" => {
                    let (name, private) = rest.strip_suffix(" private").map_or((rest, false), |name| (name, true));
                    let name = name.parse::<Name>().map_err(|e| place(e.to_string()))?;
                    recipe.private.extend(private.then(|| name.clone()));
                    recipe.zones.push((name, block(&mut lines).map_err(place)?));
                }
                "config" => recipe.config = block(&mut lines).map_err(place)?,
                "identity" => identity(&mut recipe, rest).map_err(place)?,
                "step" => recipe.steps.push(step(rest, index + 1).map_err(place)?),
                _ => {
                    let step =
                        recipe.steps.last_mut().ok_or_else(|| place(format!("{word:?} before the first step")))?;
                    step.directive(word, rest).map_err(place)?;
                }
            }
        }
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<(), String> {
        for (index, step) in self.steps.iter().enumerate() {
            let fault = |what: &str| Err(format!("{}: step {} {what}", step.line, step.id));
            if self.steps[..index].iter().any(|earlier| earlier.id == step.id) {
                return fault("has the number of an earlier one");
            }
            if !step.asked {
                return fault("asks nothing: give it a `query` or `raw` line");
            }
            if !step.expect.drop && step.expect.rcodes.is_empty() {
                return fault("expects nothing: give it a `reply` or `drop` line");
            }
        }
        if self.steps.is_empty() { Err("1: a recipe without steps".into()) } else { Ok(()) }
    }
}

/// Returns the lines up to `end` with their indentation, which matters to YAML but not to the owners of a zone.
fn block<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Result<String, String> {
    let mut taken = Vec::new();
    for (_, line) in lines {
        if line == "end" {
            let filled = taken.iter().filter(|l: &&&str| !l.trim().is_empty());
            let indent = filled.map(|l| l.len() - l.trim_start().len()).min().unwrap_or(0);
            let cut = taken.iter().map(|l: &&str| l.get(indent..).unwrap_or(""));
            return Ok(cut.fold(String::new(), |text, l| text + l + "\n"));
        }
        taken.push(line);
    }
    Err("the block has no `end`".into())
}

fn identity(recipe: &mut Recipe, text: &str) -> Result<(), String> {
    for word in words(text) {
        match word.split_once('=') {
            Some(("version", value)) => recipe.identity.0 = Some(value.trim_matches('"').to_owned()),
            Some(("id", value)) => recipe.identity.1 = Some(value.trim_matches('"').to_owned()),
            _ => return Err(format!("{word:?} is neither version=TEXT nor id=TEXT")),
        }
    }
    Ok(())
}

fn step(text: &str, line: usize) -> Result<Step, String> {
    let (id, rule) = text.split_once(char::is_whitespace).ok_or("a step needs a number and a sentence")?;
    let (id, rule) = (id.to_owned(), rule.trim().to_owned());
    Ok(Step { id, rule, line, asked: false, health: vec![], query: Query::empty(), expect: Expect::default() })
}

impl Step {
    fn directive(&mut self, word: &str, rest: &str) -> Result<(), String> {
        let expect = &mut self.expect;
        match word {
            "query" => self.query_line(rest)?,
            "raw" => self.raw_line(rest)?,
            "health" => {
                let (cluster, state) = rest.split_once(' ').ok_or("write: health CLUSTER STATE")?;
                self.health.push((cluster.to_owned(), health(state.trim())?));
            }
            "reply" => reply(expect, rest)?,
            "drop" => expect.drop = true,
            "answer" => expect.answers.last_mut().expect("there is always one").push(rest.parse()?),
            "or" => expect.answers.push(vec![]),
            "authority" => expect.authority.push(rest.parse()?),
            "additional" => expect.additional.push(rest.parse()?),
            "may" => {
                let record = rest.strip_prefix("additional").ok_or("write: may additional RECORD")?;
                expect.may_additional.push(record.trim().parse()?);
            }
            "any" => match rest {
                "answer" => expect.any[0] = true,
                "authority" => expect.any[1] = true,
                "additional" => expect.any[2] = true,
                _ => return Err(format!("{rest:?} is no section")),
            },
            "edns" => edns(expect, rest)?,
            "size" => expect.size = Some(size(rest)?),
            "rrsets" => expect.rrsets = Some(rest.trim_start_matches("<=").trim().parse().map_err(|_| "no number")?),
            "tsig" => {
                let error = rest.strip_prefix("error=").and_then(|n| n.parse().ok());
                expect.tsig_error = Some(error.ok_or("write: tsig error=NUMBER")?);
            }
            "same" => expect.same = Some(rest.to_owned()),
            "one-decoder" => expect.one_decoder = true,
            "exact-case" => expect.exact_case = true,
            _ => return Err(format!("{word:?} is no word of a step; see integration/recipes/README.md")),
        }
        Ok(())
    }

    fn query_line(&mut self, rest: &str) -> Result<(), String> {
        let words: Vec<_> = rest.split_whitespace().collect();
        let [name, rtype, options @ ..] = &words[..] else { return Err("write: query NAME TYPE [OPTION…]".into()) };
        let name = name.parse::<Name>().map_err(|e| format!("{name}: {e}"))?;
        let rtype = rtype.parse::<Rtype>().map_err(|e| e.to_string())?;
        self.query = Query::new(name, rtype);
        self.asked = true;
        options.iter().try_for_each(|word| self.query.apply(word))
    }

    fn raw_line(&mut self, rest: &str) -> Result<(), String> {
        self.asked = true;
        self.query.raw.get_or_insert_default();
        for word in rest.split_whitespace() {
            match word {
                "udp" | "tcp" => self.query.apply(word)?,
                from if from.starts_with("from=") => self.query.apply(word)?,
                digits => {
                    let raw = self.query.raw.get_or_insert_default();
                    let (digits, times) = digits.split_once('*').unwrap_or((digits, "1"));
                    let octets = unhex(digits).ok_or_else(|| format!("{digits:?} is no hexadecimal text"))?;
                    raw.extend(octets.repeat(times.parse().map_err(|_| format!("{times:?} is no number"))?));
                }
            }
        }
        Ok(())
    }
}

fn health(text: &str) -> Result<State, String> {
    Ok(match text {
        "up" => State::Up,
        "down" => State::Down,
        "pending" => State::Pending,
        "unknown" => State::Unknown,
        "forced-up" => State::ForcedUp,
        "forced-down" => State::ForcedDown,
        "drained" => State::Drained,
        _ => return Err(format!("{text:?} is no state: up, down, pending, unknown, forced-up, forced-down, drained")),
    })
}

fn reply(expect: &mut Expect, text: &str) -> Result<(), String> {
    let mut words = text.split_whitespace();
    let rcodes = words.next().ok_or("write: reply RCODE [aa] [tc]")?;
    expect.rcodes = rcodes.split('|').map(rcode_number).collect::<Result<_, _>>()?;
    for word in words {
        match word {
            "aa" => expect.aa = true,
            "tc" => expect.tc = true,
            _ => return Err(format!("{word:?} is neither aa nor tc")),
        }
    }
    Ok(())
}

fn edns(expect: &mut Expect, text: &str) -> Result<(), String> {
    let expected = &mut expect.edns;
    for word in words(text) {
        let number = |value: &str| value.parse::<u16>().map_err(|_| format!("{word:?} has no number"));
        match word.split_once('=') {
            None if word == "none" => expected.present = Some(false),
            None if word == "present" => expected.present = Some(true),
            None if word == "keepalive" => expected.keepalive = true,
            Some(("size", value)) => expected.size = Some(number(value)?),
            Some(("scope", "any")) => expected.scope = None,
            Some(("scope", value)) => {
                expected.scope = Some(value.parse().map_err(|_| format!("{word:?} has no number"))?)
            }
            Some(("ede", value)) => expected.extended_error = Some(number(value)?),
            Some(("nsid", value)) => expected.nsid = Some(value.trim_matches('"').as_bytes().to_vec()),
            _ => return Err(format!("{word:?} is no word of an edns line")),
        }
    }
    Ok(())
}

fn size(text: &str) -> Result<SizeLimit, String> {
    let limit = text.strip_prefix("<=").ok_or("write: size <= NUMBER, or size <= query")?.trim();
    if limit == "query" {
        return Ok(SizeLimit::Query);
    }
    limit.parse().map(SizeLimit::Octets).map_err(|_| format!("{limit:?} is no number"))
}

/// Splits at blanks outside quotes.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quoted, mut escaped) = (None, false, false);
    for (at, character) in text.char_indices() {
        if character.is_whitespace() && !quoted {
            words.extend(start.take().map(|from| &text[from..at]));
        } else {
            start = start.or(Some(at));
        }
        quoted ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
    }
    words.extend(start.map(|from| &text[from..]));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A comment\nzone example.\n  @ 60 IN SOA a b 1 2 3 4 5\nend\nconfig\n  pools: [ { members: [ { probe: \"{eu1}\" } ] } ]\nend\n\
        step 1034-4.3.2 The rule\nhealth eu1 down\nquery www.example. A edns=512 do\nreply NXDOMAIN|REFUSED aa\n\
        authority example. 5 IN SOA a. b. 1 2 3 4 5\nsize <= query\n";

    #[test]
    fn a_recipe_is_read_whole() {
        let recipe = Recipe::parse(TEXT).unwrap();
        assert_eq!(recipe.zones[0].1, "@ 60 IN SOA a b 1 2 3 4 5\n");
        assert_eq!(recipe.probed_clusters(), ["eu1"]);
        assert!(recipe.config_with(|c| format!("127.0.0.1:1{}", c.len())).contains("\"127.0.0.1:13\""));
        let step = &recipe.steps[0];
        assert_eq!((step.id.as_str(), step.line), ("1034-4.3.2", 8));
        assert_eq!((&step.expect.rcodes[..], step.expect.aa, step.expect.tc), (&[3, 5][..], true, false));
        assert_eq!(step.expect.authority.len(), 1);
    }

    #[test]
    fn faults_name_their_line() {
        for (broken, place) in [
            (TEXT.replace("reply", "repply"), "11: "),
            (TEXT.replace("size <= query", "size < 4"), "13: "),
            (TEXT.replace("end\n", ""), "2: "),
            (TEXT.replace("query www", "# query www"), "8: "),
        ] {
            let fault = Recipe::parse(&broken).unwrap_err();
            assert!(fault.starts_with(place), "{fault}");
        }
    }

    #[test]
    fn blanks_inside_quotes_do_not_split() {
        assert_eq!(words("a \"b c\" d\\\" e"), ["a", "\"b c\"", "d\\\"", "e"]);
    }
}
