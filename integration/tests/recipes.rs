//! Every recipe, played on the code in this process and on the real binary. `integration/recipes/README.md` describes the
//! format.

use fairway_integration::recipe::{Binary, InProcess, Recipe, Stage, names, run};

/// Plays one recipe; the panic lists every error with file, line, step and rule.
fn play<S: Stage>(name: &str, stage: impl FnOnce(&Recipe) -> Result<S, String>) {
    let recipe = Recipe::named(&name.replace('_', "-")).unwrap_or_else(|fault| panic!("{fault}"));
    let mut stage = stage(&recipe).unwrap_or_else(|fault| panic!("{}: {fault}", recipe.path.display()));
    let faults = run(&recipe, &mut stage);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

macro_rules! recipes {
    ($($name:ident),* $(,)?) => {
        mod in_process {
            $(#[test]
            fn $name() {
                super::play(stringify!($name), super::InProcess::new);
            })*
        }

        mod on_the_binary {
            $(#[test]
            fn $name() {
                super::play(stringify!($name), super::Binary::start);
            })*
        }

        #[test]
        fn every_recipe_file_has_its_tests() {
            let mut tested: Vec<_> = [$(stringify!($name)),*].iter().map(|n| n.replace('_', "-")).collect();
            tested.sort();
            assert_eq!(names(), tested);
        }
    };
}

recipes! {
    abuse,
    additional,
    any,
    classes,
    classes_silent,
    closest_zone,
    cname,
    cname_bound,
    cookies,
    delegation,
    dname,
    ecs_static,
    ecs_steered,
    edns,
    edns_compliance,
    edns_options,
    exact,
    glue,
    header,
    malformed,
    names,
    negative,
    opcodes,
    outside,
    qtypes,
    question,
    root,
    steered_down,
    steered_failover,
    steered_last_good,
    steered_names,
    steered_negatives,
    steered_place,
    steered_same,
    steered_views,
    steered_weights,
    truncation,
    tsig,
    unknown_types,
    wildcard,
    wildcard_4592,
}

/// The player must be able to fail: a recipe that expects the wrong record, code, flag and section has four errors.
#[test]
fn recipe_reports_each_wrong_expectation() {
    let text = "zone example.test.\n@ 300 IN SOA ns1 admin 1 7200 3600 1209600 60\n@ 300 IN NS ns1\nns1 300 IN A 192.0.2.53\nend\n\
        step 1-a Wrong record\nquery ns1.example.test. A\nreply NOERROR aa\nanswer ns1.example.test. 300 IN A 192.0.2.54\n\
        step 1-b Wrong code\nquery none.example.test. A\nreply NOERROR aa\nany authority\n\
        step 1-c Wrong flag\nquery ns1.example.test. A\nreply NOERROR\nany answer\n\
        step 1-d Wrong section\nquery none.example.test. A\nreply NXDOMAIN aa\n\
        step 1-e No reply expected\nquery ns1.example.test. A\ndrop\n";
    let recipe = Recipe::parse(text).unwrap();
    let faults = run(&recipe, &mut InProcess::new(&recipe).unwrap());
    for step in ["1-a", "1-b", "1-c", "1-d", "1-e"] {
        let hits = faults.iter().filter(|f| f.contains(&format!("step {step} "))).count();
        assert_eq!(hits, 1, "at step {step}: {faults:#?}");
    }
}
