//! Record sets that are declared one name at a time.

use std::fmt::Arguments;

use fairway_model::{Name, RecordSet, Rtype, SharedMap, Subject};
use fairway_zonefile::rdata_from_text;

use super::Converter;
use crate::{
    bounds_wire::{As, Plain},
    v1_records,
};

/// Returns the record sets by name and type.
pub(super) fn records(
    converter: &mut Converter<'_, '_>,
    list: Vec<v1_records::Records>,
) -> SharedMap<(Name, Rtype), RecordSet> {
    let mut sets = Vec::with_capacity(list.len());
    for (index, wire) in list.into_iter().enumerate() {
        let (As(name), As(own)) = (wire.name, wire.sets);
        for (at, wire) in own.into_iter().enumerate() {
            let As(rtype) = wire.rtype;
            let pointer = format_args!("/records/{index}/sets/{at}");
            if let Some(set) = set(converter, pointer, &name, wire)
                && converter.declare(Subject::Records(name.clone(), rtype), index)
            {
                sets.push((set.key(), set));
            }
        }
    }
    sets.into_iter().collect()
}

fn set(
    converter: &mut Converter<'_, '_>,
    pointer: Arguments<'_>,
    name: &Name,
    wire: v1_records::RecordSet,
) -> Option<RecordSet> {
    let (As(rtype), As(data)) = (wire.rtype, wire.data);
    if !rtype.is_declarable() {
        let hint = "zones have their own SOA; remove it";
        converter.error(format_args!("{pointer}/type"), format!("{rtype} records cannot be declared"), hint);
        return None;
    }
    let ttl = wire.ttl.plain();
    converter.warn_if_uncached(format_args!("{pointer}/ttl"), ttl);
    let mut rdatas = Vec::with_capacity(data.len());
    for (at, As(text)) in data.iter().enumerate() {
        match rdata_from_text(rtype, text.as_bytes(), &Name::root()) {
            Ok(rdata) => rdatas.push(rdata),
            Err(error) => {
                let hint = "write it as in a zone file, after the type";
                converter.error(format_args!("{pointer}/data/{at}"), error.to_string(), hint);
            }
        }
    }
    (rdatas.len() == data.len())
        .then(|| RecordSet::new(name.clone(), rtype, ttl.unwrap_or(RecordSet::TTL_USUAL), rdatas))
}
