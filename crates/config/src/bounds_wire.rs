//! Values with limits, as types. A parsed value is within its limits, and the schema has the same limits.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Int<T, const MIN: i64, const MAX: i64>(pub(super) T);

impl<'de, T: TryFrom<i64>, const MIN: i64, const MAX: i64> Deserialize<'de> for Int<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let within = Some(number).filter(|number| (MIN..=MAX).contains(number));
        within.and_then(|number| T::try_from(number).ok()).map(Self).ok_or_else(|| D::Error::custom("out of range"))
    }
}

impl<T, const MIN: i64, const MAX: i64> JsonSchema for Int<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Int_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// A number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Float<const MIN: i64, const MAX: i64>(pub(super) f64);

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Float<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let within = (MIN as f64..=MAX as f64).contains(&number);
        within.then_some(Self(number)).ok_or_else(|| D::Error::custom("out of range"))
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Float<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Float_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": MIN, "maximum": MAX })
    }
}

/// Text of `MIN` to `MAX` characters.
#[derive(Clone, Debug)]
pub(super) struct Text<const MIN: usize, const MAX: usize = { usize::MAX }>(pub(super) String);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let within = (MIN..=MAX).contains(&text.chars().count());
        within.then_some(Self(text)).ok_or_else(|| D::Error::custom("too short or too long"))
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text_{MIN}_{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({ "type": "string", "minLength": MIN });
        if MAX < usize::MAX {
            schema.insert("maxLength".to_owned(), MAX.into());
        }
        schema
    }
}

/// A list of `MIN` to `MAX` elements.
#[derive(Clone, Debug)]
pub(super) struct List<T, const MIN: usize, const MAX: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de> for List<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T, const MIN: usize, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Visitor<'de> for Elements<T, MIN, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {MIN} to {MAX} elements")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = given.next_element()? {
                    if elements.len() == MAX {
                        return Err(A::Error::custom("too many elements"));
                    }
                    elements.push(element);
                }
                if elements.len() < MIN { Err(A::Error::custom("too few elements")) } else { Ok(elements) }
            }
        }

        deserializer.deserialize_seq(Elements::<T, MIN, MAX>(PhantomData)).map(Self)
    }
}

impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for List<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("List_{}_{MIN}_{MAX}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
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
