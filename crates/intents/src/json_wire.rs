//! JSON values whose objects keep their order. Duplicate keys and deep nesting are rejected.
//!
//! Syntax errors have line and column. `fields` knows the fields.

use std::fmt;

use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::Number;

use super::error::BodyError;

/// A JSON value whose objects keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// Elements in order.
    List(Vec<Self>),
    /// Keys in order, each once.
    Map(Vec<(String, Self)>),
}

impl Json {
    /// Parses a body. The caller bounds its length; `DEPTH_MAX` bounds the nesting.
    pub fn read(body: &[u8]) -> Result<Self, BodyError> {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let read = Depth(0).deserialize(&mut deserializer).and_then(|json| deserializer.end().map(|()| json));
        read.map_err(|error| {
            let whole = error.to_string();
            let what = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(what, _)| what);
            let (line, column) = (error.line(), error.column());
            BodyError::new("", format!("line {line} column {column}: {what}; fix the JSON there"))
        })
    }

    /// Returns a serializable value as JSON.
    pub fn of(value: &impl Serialize) -> Self {
        let text = serde_json::to_vec(value).expect("texts, numbers and maps of texts have a JSON form");
        Self::read(&text).expect("bodies of the API have less than 32 levels")
    }

    /// Returns the value as text without spaces.
    pub fn to_text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts, numbers and maps of texts have a JSON form")
    }

    /// True for `null`, and for an empty text, list or object.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            Self::Bool(_) | Self::Number(_) => false,
        }
    }

    /// Returns an object with these keys, in this order.
    pub fn map<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Map(entries.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// Adds a value to an object, at a path of keys with dots between them. Objects on the path are added.
    pub(super) fn put(&mut self, path: &str, value: Self) {
        let Self::Map(entries) = self else { return };
        let Some((key, rest)) = path.split_once('.') else {
            entries.push((path.to_owned(), value));
            return;
        };
        // Fields are written object by object, so the object is mostly the last one.
        let at = entries.iter().rposition(|(known, _)| known == key).unwrap_or_else(|| {
            entries.push((key.to_owned(), Self::Map(Vec::new())));
            entries.len() - 1
        });
        entries[at].1.put(rest, value);
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the value of a key, to change it.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns a description for errors.
    pub fn what(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(bool) => bool.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) if text.chars().count() > 64 => {
                format!("{:?}…", text.chars().take(64).collect::<String>())
            }
            Self::Text(text) => format!("{text:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "an object".to_owned(),
        }
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(list: Vec<T>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Json {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(bool) => serializer.serialize_bool(*bool),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => serializer.collect_seq(list),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

/// Parses a value at this depth.
struct Depth(usize);

impl Depth {
    fn below<E: Error>(&self) -> Result<Self, E> {
        if self.0 < DEPTH_MAX {
            return Ok(Self(self.0 + 1));
        }
        Err(E::custom(format_args!("nested more than {DEPTH_MAX} levels deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Json, E> {
        Ok(Json::Bool(bool))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = seq.next_element_seed(self.below()?)? {
            list.push(element);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries: Vec<(String, Json)> = Vec::with_capacity(CAPACITY);
        // Keys after the first few, which are compared one by one.
        let mut keys = std::collections::HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let is_among_first = entries.iter().take(FEW).any(|(known, _)| *known == key);
            if is_among_first || (entries.len() >= FEW && !keys.insert(key.clone())) {
                let key = Json::Text(key).what();
                return Err(A::Error::custom(format_args!("duplicate key {key}")));
            }
            entries.push((key, map.next_value_seed(self.below()?)?));
        }
        Ok(Json::Map(entries))
    }
}

/// Maximum nesting of objects and lists.
const DEPTH_MAX: usize = 32;
/// Initial capacity for keys. Most objects have fewer.
const CAPACITY: usize = 8;
/// Number of keys that are compared one by one, which is faster than a hash set.
const FEW: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(text: &[u8]) -> String {
        Json::read(text).unwrap_err().detail
    }

    #[test]
    fn order_is_kept() {
        let text = br#"{"b":1,"a":[true,null,-1,0.5,"x"],"c":{}}"#;
        assert_eq!(Json::read(text).unwrap().to_text(), text);
    }

    #[test]
    fn syntax_error_has_line_and_column() {
        assert_eq!(
            rejected(b"{\n \"name\": \"a\"\n \"b\": 1}"),
            "line 3 column 2: expected `,` or `}`; fix the JSON there"
        );
        assert!(rejected(b"{\"a\": 1} x").starts_with("line 1 column 10: trailing characters"));
        assert!(rejected(b"{\"a\": \"\xff\"}").starts_with("line 1 column"));
        assert!(rejected(b"{\"a\": 5m}").starts_with("line 1 column 8: expected `,` or `}`"));
    }

    #[test]
    fn duplicate_key_is_rejected() {
        assert!(rejected(b"{\"a\": 1,\n\"a\": 1}").contains("line 2 column 3: duplicate key \"a\""));
        let many: Vec<String> = (0..40).map(|key| format!("\"k{key}\": 1")).collect();
        assert!(Json::read(format!("{{{}}}", many.join(",")).as_bytes()).is_ok());
        for twice in [0, FEW - 1, FEW, 39] {
            let error = rejected(format!("{{{},{}}}", many.join(","), many[twice]).as_bytes());
            assert!(error.contains(&format!("duplicate key \"k{twice}\"")), "{error}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::read(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(rejected(nested(DEPTH_MAX + 1).as_bytes()).contains("nested more than 32"));
        assert!(rejected(nested(100_000).as_bytes()).contains("more than 32 levels"));
    }
}
