//! Fields of any shape in JSON: a value of the wrong shape counts as missing.
//!
//! A watch ends with an error if one object cannot be read, so a single strange object of a custom resource would hide all others.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// A value; `None` if it is missing, `null` or of the wrong shape.
#[derive(Clone, Debug)]
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(|value| Self(T::deserialize(value).ok()))
    }
}

/// A list; empty if it is missing or no list. Elements of the wrong shape are skipped.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Value::Array(values) = Value::deserialize(from)? else { return Ok(Self::default()) };
        Ok(Self(values.into_iter().filter_map(|value| T::deserialize(value).ok()).collect()))
    }
}

/// A weight: a whole number. A negative one counts as 0, a larger one than the Gateway API allows as its limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Share(Maybe<i64>);

impl Share {
    /// Returns the weight; `missing` without one.
    pub(crate) fn or(&self, missing: u32) -> u32 {
        let weight = |weight: i64| u32::try_from(weight.clamp(0, Self::MAX)).unwrap_or_default();
        self.0.0.map_or(missing, weight)
    }

    /// The largest weight.
    const MAX: i64 = 1_000_000;
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_shapes_are_skipped_one_by_one() {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Fields {
            list: List<Maybe<u16>>,
            names: List<String>,
            number: Maybe<u16>,
        }
        let read =
            Fields::deserialize(json!({"list": [1, "x", null, 70_000], "names": ["a", 1, {}], "number": "1"})).unwrap();
        let list: Vec<_> = read.list.into_iter().map(|Maybe(number)| number).collect();
        assert_eq!((list, read.names.0, read.number.0), (vec![Some(1), None, None, None], vec!["a".to_owned()], None));
        let read = Fields::deserialize(json!({"list": {}, "names": null, "number": 7})).unwrap();
        assert_eq!((read.list.0.len(), read.names.0.len(), read.number.0), (0, 0, Some(7)));
    }
}
