//! Checked values. A type of the file that holds one accepts valid input only, and its schema is equivalent.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

use super::{values::TextValue, words::Words};

/// A value that a rule checks while it is deserialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct As<R: Rule>(pub(super) R::Value);

/// Form and limits of a value.
pub(super) trait Rule {
    /// Type of a valid value.
    type Value;

    /// Deserializes and checks a value.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Value, D::Error>;

    /// Returns a schema that accepts the same values.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

impl<'de, R: Rule> Deserialize<'de> for As<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        R::read(deserializer).map(Self)
    }
}

impl<R: Rule> JsonSchema for As<R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<R>().into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        R::schema(generator)
    }
}

/// Takes the value out of its [`As`].
pub(super) trait Plain {
    /// Type of the value.
    type Value;

    /// Returns the value.
    fn plain(self) -> Self::Value;
}

impl<R: Rule> Plain for As<R> {
    type Value = R::Value;

    fn plain(self) -> R::Value {
        self.0
    }
}

impl<T: Plain> Plain for Option<T> {
    type Value = Option<T::Value>;

    fn plain(self) -> Self::Value {
        self.map(Plain::plain)
    }
}

impl<T: Plain> Plain for Vec<T> {
    type Value = Vec<T::Value>;

    fn plain(self) -> Self::Value {
        self.into_iter().map(Plain::plain).collect()
    }
}

/// A value that is written as text and parsed here.
impl<T: TextValue> Rule for T {
    type Value = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        /// Parses a borrowed text, without copying it first.
        struct Parse<T>(PhantomData<T>);

        impl<T: TextValue> Visitor<'_> for Parse<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                T::parse(text).map_err(|rejection| E::custom(rejection.what))
            }
        }

        deserializer.deserialize_str(Parse(PhantomData))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": T::FORMAT, "title": T::EXPECTED })
    }
}

/// One of several words.
pub(super) type Word<T> = As<OneOf<T>>;

/// Rule of a [`Word`].
#[derive(Clone, Copy, Debug)]
pub(super) struct OneOf<T>(PhantomData<T>);

impl<T: Words> Rule for OneOf<T> {
    type Value = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::of_word(&word).ok_or_else(|| D::Error::custom("unknown word"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        json_schema!({ "enum": words })
    }
}

/// A whole number from `MIN` to `MAX`.
pub(super) type Int<T, const MIN: i64, const MAX: i64> = As<Whole<T, MIN, MAX>>;

/// Rule of an [`Int`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<T, const MIN: i64, const MAX: i64>(PhantomData<T>);

impl<T: TryFrom<i64>, const MIN: i64, const MAX: i64> Rule for Whole<T, MIN, MAX> {
    type Value = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let within = Some(number).filter(|number| (MIN..=MAX).contains(number));
        within.and_then(|number| T::try_from(number).ok()).ok_or_else(|| D::Error::custom("out of range"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// A number from `MIN` to `MAX`.
pub(super) type Float<const MIN: i64, const MAX: i64> = As<Number<MIN, MAX>>;

/// Rule of a [`Float`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<const MIN: i64, const MAX: i64>;

impl<const MIN: i64, const MAX: i64> Rule for Number<MIN, MAX> {
    type Value = f64;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let is_within = (MIN as f64..=MAX as f64).contains(&number);
        is_within.then_some(number).ok_or_else(|| D::Error::custom("out of range"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": MIN, "maximum": MAX })
    }
}

/// Text of `MIN` to `MAX` characters.
pub(super) type Text<const MIN: usize, const MAX: usize = { usize::MAX }> = As<Length<MIN, MAX>>;

/// Rule of a [`Text`].
#[derive(Clone, Debug)]
pub(super) struct Length<const MIN: usize, const MAX: usize>;

impl<const MIN: usize, const MAX: usize> Rule for Length<MIN, MAX> {
    type Value = String;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_within = (MIN..=MAX).contains(&text.chars().count());
        is_within.then_some(text).ok_or_else(|| D::Error::custom("too short or too long"))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "string", "minLength": MIN });
        if MAX < usize::MAX {
            schema.insert("maxLength".to_owned(), MAX.into());
        }
        schema
    }
}

/// A list of `MIN` to `MAX` elements.
pub(super) type List<T, const MIN: usize, const MAX: usize> = As<Elements<T, MIN, MAX>>;

/// Rule of a [`List`].
#[derive(Clone, Debug)]
pub(super) struct Elements<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

impl<T: for<'de> Deserialize<'de> + JsonSchema, const MIN: usize, const MAX: usize> Rule for Elements<T, MIN, MAX> {
    type Value = Vec<T>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        let elements = Vec::deserialize(deserializer)?;
        let is_within = (MIN..=MAX).contains(&elements.len());
        is_within.then_some(elements).ok_or_else(|| D::Error::custom("too few or too many elements"))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array", "items": generator.subschema_for::<T>(), "minItems": MIN, "maxItems": MAX
        })
    }
}

/// Deserializes a map of texts with unique keys: serde itself would keep the last of two.
pub(super) fn each_once<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Keys;

    impl<'de> Visitor<'de> for Keys {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((key, value)) = given.next_entry()? {
                if map.insert(key, value).is_some() {
                    return Err(A::Error::custom("a key is repeated"));
                }
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(Keys).map(Some)
}
