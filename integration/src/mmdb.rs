//! Writes small databases in MaxMind's format (MMDB, version 2), so that tests need no real ones.
//!
//! Follows the specification of the format: a binary tree over the bits of addresses, a data section, metadata. Wider networks must
//! come first. Not optimized.

use std::net::IpAddr;

/// A value of the data section.
#[derive(Clone, Debug)]
pub enum Value {
    /// A double.
    Double(f64),
    /// An unsigned 64-bit integer.
    Long(u64),
    /// An array.
    List(Vec<Self>),
    /// A map.
    Map(Vec<(&'static str, Self)>),
    /// An unsigned 16-bit integer.
    Short(u16),
    /// Text of fewer than 285 octets.
    Text(String),
    /// An unsigned 32-bit integer.
    Uint(u32),
}

impl Value {
    /// Returns text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Returns a record of a City database: a country, and coordinates if given.
    pub fn city(country: &str, coordinates: Option<(f64, f64)>) -> Self {
        let code = |key, code: &str| Self::Map(vec![(key, Self::text(code))]);
        let mut record = vec![("country", code("iso_code", country))];
        if let Some((latitude, longitude)) = coordinates {
            let location = vec![("latitude", Self::Double(latitude)), ("longitude", Self::Double(longitude))];
            record.push(("location", Self::Map(location)));
        }
        Self::Map(record)
    }

    /// Returns a record of an ASN database.
    pub fn asn(number: u32) -> Self {
        Self::Map(vec![("autonomous_system_number", Self::Uint(number))])
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Double(number) => {
                out.push(3 << 5 | 8);
                out.extend(number.to_be_bytes());
            }
            // Types above 7 have their own octet.
            Self::Long(number) => {
                out.extend([8, 9 - 7]);
                out.extend(number.to_be_bytes());
            }
            Self::List(elements) => {
                out.extend([u8::try_from(elements.len()).expect("a short list"), 11 - 7]);
                elements.iter().for_each(|element| element.write(out));
            }
            Self::Map(entries) => {
                out.push(7 << 5 | u8::try_from(entries.len()).expect("a small map"));
                for (key, value) in entries {
                    Self::text(key).write(out);
                    value.write(out);
                }
            }
            Self::Short(number) => {
                out.push(5 << 5 | 2);
                out.extend(number.to_be_bytes());
            }
            Self::Text(text) => {
                match u8::try_from(text.len()).expect("a short text") {
                    short @ 0..29 => out.push(2 << 5 | short),
                    long => out.extend([2 << 5 | 29, long - 29]),
                }
                out.extend(text.as_bytes());
            }
            Self::Uint(number) => {
                out.push(6 << 5 | 4);
                out.extend(number.to_be_bytes());
            }
        }
    }
}

/// A database to write.
#[derive(Clone, Debug)]
pub struct Mmdb {
    /// Bits of a tree record: 24, 28 or 32.
    pub record_size: u16,
    /// 4 for a tree over IPv4 addresses; 6 for a tree over IPv6 addresses, with IPv4 below `::/96`.
    pub ip_version: u16,
    /// True if `::ffff:0:0/96` also points to the IPv4 tree, as in the real databases.
    pub aliases: bool,
    /// Type of the database.
    pub kind: &'static str,
    /// Networks (address and prefix length) with their records; wider ones first.
    pub networks: Vec<(IpAddr, u8, Value)>,
}

impl Mmdb {
    /// Returns a City database for both address families.
    pub fn new(networks: &[(&str, Value)]) -> Self {
        let network = |(network, value): &(&str, Value)| {
            let (address, length) = network.split_once('/').expect("ADDRESS/LENGTH");
            (address.parse().expect("an address"), length.parse().expect("a length"), value.clone())
        };
        let networks = networks.iter().map(network).collect();
        Self { record_size: 24, ip_version: 6, aliases: true, kind: "Test-City", networks }
    }

    /// Returns the content of the file.
    pub fn octets(&self) -> Vec<u8> {
        let mut tree = Tree { nodes: vec![[Child::None; 2]] };
        let mut data = Vec::new();
        for (address, length, value) in &self.networks {
            let bits = self.bits(*address, *length);
            tree.put(&bits, Child::Data(data.len()));
            value.write(&mut data);
        }
        if self.aliases && self.ip_version == 6 {
            let ipv4 = tree.get(&[false; 96]);
            let mapped: Vec<bool> = (0..96).map(|bit| bit >= 80).collect();
            tree.put(&mapped, ipv4);
        }
        let mut file = Vec::new();
        let count = tree.nodes.len();
        for node in &tree.nodes {
            self.write_node(node.map(|child| child.number(count)), &mut file);
        }
        file.extend([0; 16]);
        file.extend(data);
        file.extend(b"\xab\xcd\xefMaxMind.com");
        let number = Value::Short;
        Value::Map(vec![
            ("binary_format_major_version", number(2)),
            ("binary_format_minor_version", number(0)),
            ("build_epoch", Value::Long(1_767_225_600)),
            ("database_type", Value::text(self.kind)),
            ("description", Value::Map(vec![("en", Value::text("made by a test"))])),
            ("ip_version", number(self.ip_version)),
            ("languages", Value::List(vec![Value::text("en")])),
            ("node_count", Value::Uint(u32::try_from(count).expect("a small tree"))),
            ("record_size", number(self.record_size)),
        ])
        .write(&mut file);
        file
    }

    fn bits(&self, address: IpAddr, length: u8) -> Vec<bool> {
        let (octets, before) = match address {
            IpAddr::V4(v4) if self.ip_version == 6 => ([&[0; 12][..], &v4.octets()].concat(), 96),
            IpAddr::V4(v4) => (v4.octets().to_vec(), 0),
            IpAddr::V6(v6) => (v6.octets().to_vec(), 0),
        };
        let bit = |at: usize| octets[at / 8] >> (7 - at % 8) & 1 == 1;
        (0..usize::from(length) + before).map(bit).collect()
    }

    fn write_node(&self, [left, right]: [u32; 2], file: &mut Vec<u8>) {
        let (l, r) = (left.to_be_bytes(), right.to_be_bytes());
        match self.record_size {
            24 => file.extend([l[1], l[2], l[3], r[1], r[2], r[3]]),
            28 => file.extend([l[1], l[2], l[3], l[0] << 4 | r[0], r[1], r[2], r[3]]),
            _ => file.extend([l, r].concat()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Child {
    None,
    Node(usize),
    /// Returns the offset of a record in the data section.
    Data(usize),
}

impl Child {
    fn number(self, nodes: usize) -> u32 {
        let number = match self {
            Self::None => nodes,
            Self::Node(number) => number,
            Self::Data(offset) => nodes + 16 + offset,
        };
        u32::try_from(number).expect("a small database")
    }
}

struct Tree {
    nodes: Vec<[Child; 2]>,
}

impl Tree {
    fn put(&mut self, bits: &[bool], child: Child) {
        let (last, way) = bits.split_last().expect("a network of at least one bit");
        let mut at = 0;
        for bit in way {
            let side = usize::from(*bit);
            at = match self.nodes[at][side] {
                Child::Node(next) => next,
                // The record of the parent continues in both halves.
                above => {
                    self.nodes.push([above; 2]);
                    self.nodes[at][side] = Child::Node(self.nodes.len() - 1);
                    self.nodes.len() - 1
                }
            };
        }
        self.nodes[at][usize::from(*last)] = child;
    }

    fn get(&self, bits: &[bool]) -> Child {
        let mut at = Child::Node(0);
        for bit in bits {
            let Child::Node(node) = at else { break };
            at = self.nodes[node][usize::from(*bit)];
        }
        at
    }
}
