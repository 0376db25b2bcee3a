//! Grants of verbs to subjects. Everything that no grant allows is denied.

use std::{collections::BTreeSet, fmt};

use super::{
    Access,
    identity::{Identity, Subject},
    verb::Verbs,
};

/// The permission that a request requires: verbs that a caller must be granted, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    /// The verbs, all of which are required.
    pub verbs: Verbs,
    /// The project; `None` for objects outside of projects, which require a grant for all projects.
    pub project: Option<String>,
}

/// The scope of a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projects {
    /// Every project, and objects outside of projects.
    All,
    /// Only these projects.
    Named(BTreeSet<String>),
}

impl Projects {
    /// Returns true if the scope includes the project, or objects outside of projects for `None`.
    fn covers(&self, project: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => project.is_some_and(|project| names.contains(project)),
        }
    }
}

/// A grant of verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The subjects that have the grant.
    pub to: BTreeSet<Subject>,
    /// The verbs of a role.
    pub verbs: Verbs,
    /// The scope.
    pub projects: Projects,
}

/// A permission that an identity lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The required verbs that are not granted.
    pub missing: Verbs,
    /// The project; `None` for objects outside of projects.
    pub project: Option<String>,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = if self.missing.iter().count() == 1 { "verb" } else { "verbs" };
        write!(f, "the {verbs} {}", self.missing)?;
        match &self.project {
            Some(project) => write!(f, " in the project {project}"),
            None => f.write_str(" outside of projects"),
        }
    }
}

impl Access {
    /// Checks that an identity has a permission. Local users may do everything.
    pub fn decide(&self, identity: &Identity, required: &RequiredPermission) -> Result<(), Denied> {
        if matches!(identity, Identity::Local(_)) {
            return Ok(());
        }
        let applies = |grant: &&Grant| {
            grant.projects.covers(required.project.as_deref()) && grant.to.iter().any(|subject| identity.is(subject))
        };
        let granted = self.grants.iter().filter(applies).fold(Verbs::NONE, |granted, grant| granted.and(grant.verbs));
        let missing = required.verbs.without(granted);
        if missing.is_empty() { Ok(()) } else { Err(Denied { missing, project: required.project.clone() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::verb::{BUILT_IN_ROLES, Verb},
        *,
    };

    fn grant(to: &str, role: &str, projects: &[&str]) -> Grant {
        let verbs = BUILT_IN_ROLES.iter().find(|(name, _)| *name == role).expect("a role").1;
        let projects = match projects {
            [] => Projects::All,
            named => Projects::Named(named.iter().map(ToString::to_string).collect()),
        };
        Grant { to: to.split(' ').map(|subject| subject.parse().expect("a subject")).collect(), verbs, projects }
    }

    fn identity(names: &str) -> Identity {
        match names {
            "" => Identity::Nobody,
            names => Identity::known(names.split(' ').map(|name| name.parse().expect("a subject"))),
        }
    }

    /// Each row: subjects, required verbs, project, missing verbs.
    #[test]
    fn verbs_without_a_grant_are_denied() {
        let grants = vec![
            grant("token:ci", "editor", &["shop", "pay"]),
            grant("token:ci", "viewer", &[]),
            grant("group:corp:sre certificate:spiffe://corp/ops", "operator", &[]),
            grant("jwt:corp:root", "admin", &[]),
            grant("anyone", "viewer", &["open"]),
        ];
        let access = Access { grants, ..Access::default() };
        let table = [
            ("token:ci", "write", "shop", ""),
            ("token:ci", "write delete", "pay", ""),
            ("token:ci", "write", "other", "write"),
            ("token:ci", "write delete read", "", "delete, write"),
            ("token:ci", "read", "other", ""),
            ("token:ci", "observe", "", ""),
            ("token:cd", "read", "shop", "read"),
            ("jwt:corp:alice group:corp:sre", "override", "", ""),
            ("jwt:corp:alice group:corp:sre", "write", "shop", "write"),
            ("jwt:corp:alice group:other:sre", "override", "", "override"),
            ("certificate:spiffe://corp/ops", "operate report", "", ""),
            ("certificate:corp:sre", "override", "", "override"),
            ("jwt:corp:root", "delete observe operate override read report write", "", ""),
            ("jwt:corp:root", "write", "any", ""),
            ("token:jwt:corp:root", "read", "", "read"),
            ("", "read", "open", ""),
            ("", "read", "", "read"),
            ("", "write", "open", "write"),
            ("token:cd", "read", "open", ""),
        ];
        for (names, verbs, project, missing) in table {
            let verbs = verbs.split(' ').map(|verb| verb.parse::<Verb>().expect("a verb")).collect();
            let required = RequiredPermission { verbs, project: (!project.is_empty()).then(|| project.to_owned()) };
            let missed = access.decide(&identity(names), &required).err().map(|denied| denied.missing.to_string());
            assert_eq!(missed.unwrap_or_default(), missing, "{names:?} {verbs} in {project:?}");
        }
    }

    #[test]
    fn without_grants_only_a_local_user_may_do_anything() {
        let access = Access::default();
        for verb in Verb::ALL {
            let required = RequiredPermission { verbs: (*verb).into(), project: None };
            assert_eq!(
                access.decide(&identity("token:ci"), &required).unwrap_err().to_string(),
                format!("the verb {verb} outside of projects")
            );
            assert_eq!(access.decide(&Identity::Local("local user 0".to_owned()), &required), Ok(()));
        }
    }
}
