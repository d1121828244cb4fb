//! Types that belong to an application. The kernel is given the list and knows no application by its name.

use super::TypeName;

/// An application, known by the prefix of its types. The prefix ends in a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application(pub &'static str);

/// The types of one application. Only the application creates jobs of these types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedTypes {
    pub application: Application,
    /// The command that repeats one of its jobs; none if everyone may retry them.
    pub retry_with: Option<&'static str>,
}

/// All reserved types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserved(pub &'static [ReservedTypes]);

impl Reserved {
    /// What is reserved together with this type; none if everyone may use it.
    pub fn of(self, job_type: &TypeName) -> Option<&'static ReservedTypes> {
        self.0.iter().find(|reserved| job_type.as_str().starts_with(reserved.application.0))
    }

    /// What keeps this application, or a user, from creating jobs of a type.
    pub fn forbids(self, by: Option<Application>, job_type: &TypeName) -> Option<&'static ReservedTypes> {
        self.of(job_type).filter(|reserved| by != Some(reserved.application))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERIES: Application = Application("q.");
    const BUILDS: Application = Application("build.");
    const LIST: Reserved = Reserved(&[
        ReservedTypes { application: QUERIES, retry_with: None },
        ReservedTypes { application: BUILDS, retry_with: Some("jobhall build retry") },
    ]);

    #[test]
    fn ground_2_a_type_with_the_prefix_of_an_application_belongs_to_it() {
        let of = |name: &str| LIST.of(&TypeName::new(name).unwrap()).map(|found| found.application);
        assert_eq!(of("q.run"), Some(QUERIES));
        assert_eq!(of("build.step"), Some(BUILDS));
        for name in ["q", "queue.run", "build", "builds.x", "Build.step", "my.build.step"] {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(Reserved::default().of(&TypeName::new("q.run").unwrap()), None);
    }

    #[test]
    fn ground_2_only_the_application_itself_is_allowed() {
        let allowed = |by, name: &str| LIST.forbids(by, &TypeName::new(name).unwrap()).is_none();
        assert!(allowed(Some(QUERIES), "q.run") && allowed(None, "mail") && allowed(Some(BUILDS), "mail"));
        assert!(!allowed(None, "q.run") && !allowed(Some(BUILDS), "q.run"));
    }
}
