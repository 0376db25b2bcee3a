//! Work on many parts, on all cores that this process may use. The results keep the order of the parts.
//!
//! It parses the objects of a store, at a start or after missed events, and runs simulations. The threads live for one call and have the niceness of the caller, so
//! that those of a server that answers already have a low priority. The threads of a pool, as in rayon, would keep that of its first use.

use std::{
    iter,
    panic::resume_unwind,
    sync::{Mutex, PoisonError},
    thread,
};

/// Returns the result of each part, in the order of the parts.
pub fn on_all_cores<T: Send, U: Send>(parts: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    on_threads(cores.min(parts.len() / PARTS_MIN), parts, work)
}

fn on_threads<T: Send, U: Send>(threads: usize, parts: Vec<T>, work: impl Fn(T) -> U + Sync) -> Vec<U> {
    if threads < 2 {
        return parts.into_iter().map(work).collect();
    }
    let left = Mutex::new(parts.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || iter::from_fn(next).map(|(at, part)| (at, work(part))).collect::<Vec<_>>();
    let mut done = thread::scope(|scope| {
        // If a thread cannot be started, the others do its work.
        let others = (1..threads).map(|_| thread::Builder::new().spawn_scoped(scope, some));
        let others: Vec<_> = others.filter_map(Result::ok).collect();
        let mut done = some();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Parts per thread that are worth its start.
const PARTS_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use fairway_access::NameGrants;
    use fairway_model::{DesiredState, Timestamp};

    use super::*;
    use crate::declared::{ClaimRules, Declared, ObjectErrors, Releases};
    use fairway_store::objects::{Author, Key, Kind, Object};

    fn project(number: usize, value: String) -> Object {
        let key = Key::new(Kind::Project, &[&format!("p{number:05}")]).unwrap();
        let (at, by) = (Timestamp::from_secs(0), Author::default());
        let value = value.into_bytes().into();
        Object { key, value, revision: 1, generation: 1, created: at, changed: at, by }
    }

    #[test]
    fn invalid_object_among_many_is_reported_and_the_others_are_read() {
        let count = 8_000;
        let value = |number| match number {
            4_711 => "{".to_owned(),
            _ => format!("{{\"metadata\":{{\"name\":\"p{number:05}\"}}}}"),
        };
        let objects: Vec<Object> = (0..count).map(|number| project(number, value(number))).collect();
        let declared = Declared::new(1, objects.clone());
        assert!(declared.of(Kind::Project).eq(&objects));
        let mut rejected = ObjectErrors::new();
        let claims = ClaimRules {
            names: &NameGrants::default(),
            released_by_files: &Releases::default(),
            now: Timestamp::from_secs(0),
        };
        declared.contribution(None, &DesiredState::default(), &claims, &mut rejected);
        assert_eq!(rejected.keys().collect::<Vec<_>>(), [&objects[4_711].key]);
        assert_eq!(declared.all_intents().count(), count - 1);
    }

    #[test]
    fn results_keep_the_order_of_parts_with_any_number_of_threads() {
        let expected: Vec<usize> = (0..1_000).map(|part| part * 2).collect();
        for threads in [0, 1, 2, 3, 8] {
            assert_eq!(on_threads(threads, (0..1_000).collect(), |part: usize| part * 2), expected);
        }
        assert_eq!(on_all_cores((0..1_000).collect(), |part: usize| part * 2), expected);
        assert!(on_threads(4, Vec::<usize>::new(), |part| part).is_empty());
    }
}
