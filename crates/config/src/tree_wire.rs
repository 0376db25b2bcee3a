//! Deserializes the file's types from a [`Node`] tree, without copying it.
//!
//! It only decides whether the tree matches; the schema finds what does not match, and where.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        self, IntoDeserializer, Visitor,
        value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};

use super::tree::{Data, Entry, Node};

impl Node {
    /// Returns the value of the tree if it matches the type.
    pub(super) fn read<'de, T: Deserialize<'de>>(&'de self) -> Option<T> {
        T::deserialize(self).ok()
    }
}

/// True if a text is one JSON object and nothing else.
pub(super) fn is_json_object(text: &str) -> bool {
    text.starts_with('{') && serde_json::from_str::<de::IgnoredAny>(text).is_ok()
}

/// The tree does not match the type.
#[derive(Debug)]
pub(super) struct Mismatch;

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("does not fit")
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &self.data {
            Data::Null => visitor.visit_unit(),
            Data::Bool(bool) => visitor.visit_bool(*bool),
            Data::Integer(integer) => visitor.visit_i64(*integer),
            Data::Float(float) => visitor.visit_f64(*float),
            Data::Text(text) => visitor.visit_borrowed_str(text),
            Data::List(elements) => visitor.visit_seq(SeqDeserializer::new(elements.iter())),
            Data::Map(entries) => visitor.visit_map(pairs(entries)),
        }
    }

    /// A key that is present has a value: null is an error, and different from an absent key.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match &self.data {
            Data::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Data::Map(entries) if entries.len() == 1 => visitor.visit_enum(MapAccessDeserializer::new(pairs(entries))),
            _ => Err(Mismatch),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn pairs(entries: &[Entry]) -> MapDeserializer<'_, impl Iterator<Item = (&str, &Node)>, Mismatch> {
    MapDeserializer::new(entries.iter().map(|entry| (entry.key.as_str(), &entry.value)))
}
