//! Strongly connected components, by Tarjan's algorithm.

/// The components of a graph: `graph[node]` has the targets of its edges. Every node is in one component.
pub fn of(graph: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let nodes = vec![Node::default(); graph.len()];
    let mut search = Search { graph, nodes, seen: 0, stack: Vec::new(), components: Vec::new() };
    for node in 0..graph.len() {
        if search.nodes[node].index.is_none() {
            search.visit(node);
        }
    }
    search.components
}

#[derive(Clone, Default)]
struct Node {
    /// The order in which it was visited.
    index: Option<usize>,
    /// The lowest index on the stack that it reaches.
    low: usize,
    on_stack: bool,
}

struct Search<'a> {
    graph: &'a [Vec<usize>],
    nodes: Vec<Node>,
    seen: usize,
    stack: Vec<usize>,
    components: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// Visits reachable nodes and returns the lowest index reached. The depth is at most the number of functions.
    fn visit(&mut self, node: usize) -> usize {
        let index = self.seen;
        self.seen += 1;
        self.nodes[node] = Node { index: Some(index), low: index, on_stack: true };
        self.stack.push(node);
        for &next in &self.graph[node] {
            let reached = match self.nodes[next].index {
                None => self.visit(next),
                Some(known) if self.nodes[next].on_stack => known,
                Some(_) => continue,
            };
            self.nodes[node].low = self.nodes[node].low.min(reached);
        }
        if self.nodes[node].low == index {
            self.close(node);
        }
        self.nodes[node].low
    }

    /// Removes the component with this first node from the stack.
    fn close(&mut self, first: usize) {
        let mut component = Vec::new();
        while let Some(node) = self.stack.pop() {
            self.nodes[node].on_stack = false;
            component.push(node);
            if node == first {
                break;
            }
        }
        self.components.push(component);
    }
}
