//! Objects of configuration files as they are written there, for those who list what is served.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use fairway_model::{FileLocation, Name};
use serde_json::{Map, Value};

use super::{
    attempt::join_yaml,
    context::LoadContext,
    tree::{Data, Node},
    yaml::Documents,
};

/// Objects of configuration files by section and name. The texts are parsed again when an object is first looked for: a load keeps no
/// tree, which takes many times the memory of the texts.
#[derive(Default)]
pub struct FileObjects {
    names: Vec<Arc<str>>,
    texts: Vec<Option<String>>,
    found: OnceLock<BTreeMap<&'static str, BTreeMap<String, FileObject>>>,
}

/// An object of a configuration file.
#[derive(Debug)]
pub struct FileObject {
    /// Location of its element.
    pub location: FileLocation,
    json: Box<str>,
}

impl FileObject {
    /// Returns its fields as they are written, with canonical keys.
    pub fn spec(&self) -> Map<String, Value> {
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

impl FileObjects {
    pub(super) fn new(names: Vec<Arc<str>>, texts: Vec<Option<String>>) -> Self {
        Self { names, texts, found: OnceLock::new() }
    }

    /// Returns the object of a section by its name; names of DNS are in lower case and without final dot. The first call takes up to
    /// seconds for large files.
    pub fn get(&self, section: &str, name: &str) -> Option<&FileObject> {
        self.found.get_or_init(|| self.parsed()).get(section)?.get(name)
    }

    fn parsed(&self) -> BTreeMap<&'static str, BTreeMap<String, FileObject>> {
        let mut context = LoadContext::new(&|_| None, None);
        let Some(tree) = join_yaml(&self.texts, &self.names, Documents::One, &mut context) else {
            return BTreeMap::new();
        };
        let objects = |section| {
            let elements = match tree.get(section).map(|list| &list.data) {
                Some(Data::List(elements)) => &elements[..],
                _ => &[],
            };
            elements.iter().filter_map(move |element| self.object(section, element)).collect()
        };
        OBJECT_SECTIONS.map(|section| (section, objects(section))).into()
    }

    fn object(&self, section: &str, element: &Node) -> Option<(String, FileObject)> {
        let json = element.to_json();
        let name = json.get("name")?.as_str()?;
        let name = match section {
            "names" | "records" => name.parse::<Name>().ok()?.to_plain(),
            _ => name.to_owned(),
        };
        Some((name, FileObject { location: element.position.location(&self.names), json: json.to_string().into() }))
    }
}

impl fmt::Debug for FileObjects {
    /// Writes the names of the files only: the texts are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileObjects").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Sections whose elements can also be declared over the API.
const OBJECT_SECTIONS: [&str; 5] = ["clusters", "monitors", "names", "pools", "records"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_section_and_name_with_their_location() {
        let text = |text: &str| Some(text.to_owned());
        let files = FileObjects::new(
            vec!["a.yaml".into(), "b.json".into()],
            vec![
                text(
                    "version: 1\npools:\n  - name: shop\n    members: [ { edge: eu1 } ]\nnames: [ { name: SHOP.gslb.example., pool: shop } ]\n",
                ),
                text("{\"pools\": [{\"name\": \"pay\"}]}"),
            ],
        );
        let at = |section, name| files.get(section, name).map(|object| object.location.to_string());
        assert_eq!(at("pools", "shop").as_deref(), Some("a.yaml:3:5"));
        assert_eq!(at("pools", "pay").as_deref(), Some("b.json:1:12"));
        assert_eq!(at("names", "shop.gslb.example").as_deref(), Some("a.yaml:5:10"));
        assert_eq!((at("pools", "none"), at("zones", "shop")), (None, None));
        let spec = files.get("pools", "shop").unwrap().spec();
        assert_eq!(spec["members"][0]["cluster"], "eu1", "an alias is the canonical key");
        assert!(FileObjects::default().get("pools", "shop").is_none());
    }
}
