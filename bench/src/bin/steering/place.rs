//! Where clusters and clients stand on the globe, so that each row of clients has its own order of clusters by distance.
//!
//! The clusters stand at the corners of a regular tetrahedron (or of its triangle, or edge): the planes halfway between two
//! of them cut the globe into one piece for each order, and a client stands where its row's piece is.

/// Most clusters that a globe has every order of.
pub(crate) const CLUSTERS_MAX: usize = 4;

/// Degrees north and east.
pub(crate) type Place = (f64, f64);

type Vector = [f64; 3];

const CORNERS: [Vector; CLUSTERS_MAX] = [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]];

/// Where a cluster stands.
pub(crate) fn cluster(number: usize) -> Place {
    place(CORNERS[number])
}

/// Where clients stand who are nearest to the first of `order`, next to the second, and so on.
pub(crate) fn clients(order: &[usize]) -> Place {
    let mut sum = [0.0; 3];
    for (pull, number) in order.iter().rev().enumerate() {
        for (whole, part) in sum.iter_mut().zip(CORNERS[*number]) {
            *whole += pull as f64 * part;
        }
    }
    place(sum)
}

fn place([x, y, z]: Vector) -> Place {
    (z.atan2(x.hypot(y)).to_degrees(), y.atan2(x).to_degrees())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector((latitude, longitude): Place) -> Vector {
        let (north, east) = (latitude.to_radians(), longitude.to_radians());
        [north.cos() * east.cos(), north.cos() * east.sin(), north.sin()]
    }

    fn nearest_first(client: Place) -> Vec<usize> {
        let (client, mut all) = (vector(client), (0..4).collect::<Vec<_>>());
        let nearness = |number: usize| vector(cluster(number)).iter().zip(client).map(|(a, b)| a * b).sum::<f64>();
        all.sort_by(|a, b| nearness(*b).total_cmp(&nearness(*a)));
        // Far enough apart that no rounding decides.
        assert!(all.windows(2).all(|pair| nearness(pair[0]) > nearness(pair[1]) + 0.2), "{all:?}");
        all
    }

    #[test]
    fn every_order_has_its_place() {
        for a in 0..4 {
            for b in (0..4).filter(|b| *b != a) {
                for c in (0..4).filter(|c| ![a, b].contains(c)) {
                    let order = [a, b, c, 6 - a - b - c];
                    assert_eq!(nearest_first(clients(&order)), order);
                }
            }
        }
    }
}
