//! Who was granted what, and the decision that follows: nothing is allowed that no grant allows.

use std::{collections::BTreeSet, fmt};

use super::{
    identity::{Identity, Subject},
    verb::Verbs,
};

/// The permission that a request requires: verbs that a caller must be granted, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredPermission {
    /// All of these verbs.
    pub verbs: Verbs,
    /// In this project; `None` for what is in no project, which requires a grant for all projects.
    pub project: Option<String>,
}

/// Where a grant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projects {
    /// In every project, and for all that is in none.
    All,
    /// In these projects alone.
    Named(BTreeSet<String>),
}

impl Projects {
    /// Whether something that is in this project, or in none, is covered.
    fn covers(&self, project: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => project.is_some_and(|project| names.contains(project)),
        }
    }
}

/// What somebody may do, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// To whom.
    pub to: BTreeSet<Subject>,
    /// What: the verbs of a role.
    pub verbs: Verbs,
    /// Where.
    pub projects: Projects,
}

/// What somebody lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The verbs that nobody granted them there.
    pub missing: Verbs,
    /// The project that it is about; none for what is in no project.
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

/// Compares the required permission with the grants.
pub(super) fn decide(grants: &[Grant], identity: &Identity, required: &RequiredPermission) -> Result<(), Denied> {
    if matches!(identity, Identity::Local(_)) {
        return Ok(());
    }
    let theirs = grants.iter().filter(|grant| grant.projects.covers(required.project.as_deref()));
    let theirs = theirs.filter(|grant| grant.to.iter().any(|subject| identity.is(subject)));
    let granted = theirs.fold(Verbs::NONE, |granted, grant| granted.and(grant.verbs));
    let missing = required.verbs.without(granted);
    if missing.is_empty() { Ok(()) } else { Err(Denied { missing, project: required.project.clone() }) }
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

    fn who(names: &str) -> Identity {
        match names {
            "" => Identity::Nobody,
            names => Identity::known(names.split(' ').map(|name| name.parse().expect("a subject"))),
        }
    }

    /// Who asks for what, where; and what is missing.
    #[test]
    fn whatever_was_not_granted_is_denied() {
        let grants = [
            grant("token:ci", "editor", &["shop", "pay"]),
            grant("token:ci", "viewer", &[]),
            grant("group:corp:sre certificate:spiffe://corp/ops", "operator", &[]),
            grant("jwt:corp:root", "admin", &[]),
            grant("anyone", "viewer", &["open"]),
        ];
        let table = [
            ("token:ci", "write", "shop", ""),
            ("token:ci", "write delete", "pay", ""),
            ("token:ci", "write", "other", "write"),
            ("token:ci", "write delete read", "", "delete, write"),
            ("token:ci", "read", "other", ""),
            ("token:ci", "observe", "", ""),
            ("token:cd", "read", "shop", "read"),
            ("jwt:corp:alice group:corp:sre", "force", "", ""),
            ("jwt:corp:alice group:corp:sre", "write", "shop", "write"),
            ("jwt:corp:alice group:other:sre", "force", "", "force"),
            ("certificate:spiffe://corp/ops", "operate report", "", ""),
            ("certificate:corp:sre", "force", "", "force"),
            ("jwt:corp:root", "delete force observe operate read report write", "", ""),
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
            let missed = decide(&grants, &who(names), &required).err().map(|denied| denied.missing.to_string());
            assert_eq!(missed.unwrap_or_default(), missing, "{names:?} {verbs} in {project:?}");
        }
    }

    #[test]
    fn without_a_grant_nobody_may_do_anything_and_a_local_user_all() {
        for verb in Verb::ALL {
            let required = RequiredPermission { verbs: verb.into(), project: None };
            assert_eq!(
                decide(&[], &who("token:ci"), &required).unwrap_err().to_string(),
                format!("the verb {verb} outside of projects")
            );
            assert_eq!(decide(&[], &Identity::Local("local user 0".to_owned()), &required), Ok(()));
        }
    }
}
