/** What `init` writes: a configuration and playbooks that run as they are. Paths are below the folder. */
export function initFiles(project: string): Readonly<Record<string, string>> {
  return {
    'runledger.config.ts': config(project),
    'playbooks/hello.yaml': HELLO,
    'playbooks/orders.yaml': ORDERS,
    'playbooks/shared/price.yaml': PRICE,
  };
}

const config = (project: string): string => `import { defineConfig } from 'runledger';

// Read from the folder in which runledger is called; no build step. Every setting may be left out.
export default defineConfig({
  // Where the private Postgres and large results are. With DATABASE_URL in the environment that server is used instead.
  folder: '.runledger',
  // The scope that runs are recorded under.
  project: '${project}',
  environment: 'dev',
  // Sub-playbooks are looked for here, after the folder of the playbook that names them.
  playbooks: ['playbooks'],
});
`;

const HELLO = `# Two steps, a value from outside, a result.
#   runledger run playbooks/hello.yaml --set name=Ada
apiVersion: runledger/v1
kind: Playbook
metadata: { name: hello, version: "1" }
workload:
  name: world
workflow:
  - step: start
    desc: Make the greeting
    tool: { kind: noop, result: { text: "Hello, {{ workload.name }}!" } }
    next: { arcs: [{ step: shout }] }
  - step: shout
    desc: Say it louder
    tool: { kind: noop, result: "{{ start.text | upper }}" }
`;

const ORDERS = `# A loop that runs a sub-playbook for each order, two at a time, a branch on the total, and a command.
#   runledger run playbooks/orders.yaml --set limit=1000
apiVersion: runledger/v1
kind: Playbook
metadata: { name: orders, version: "1" }
workload:
  limit: 100
  orders:
    - { item: paper, quantity: 12, price: 4 }
    - { item: ink, quantity: 3, price: 19 }
    - { item: stamps, quantity: 40, price: 1 }
workflow:
  - step: start
    desc: Price every order
    loop:
      in: "{{ workload.orders }}"
      iterator: order
      spec: { mode: parallel, max_in_flight: 2 }
    tool: { kind: playbook, path: shared/price, input: { order: "{{ iter.order }}" } }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: review, when: "{{ event.name == 'loop.done' and start | map(attribute='total') | sum > workload.limit }}" }
        - { step: send, when: "{{ event.name == 'loop.done' }}" }
  - step: review
    desc: More than the limit; a command prints what has to be looked at
    tool:
      kind: shell
      env: { TOTALS: "{{ start | map(attribute='total') | join(' ') }}" }
      cmds: ['for total in $TOTALS; do echo "look at $total"; done']
    next: { arcs: [{ step: send }] }
  - step: send
    tool: { kind: noop, result: { orders: "{{ start.count }}", total: "{{ start | map(attribute='total') | sum }}" } }
`;

const PRICE = `# Run by orders.yaml for each order, and by itself.
apiVersion: runledger/v1
kind: Playbook
metadata: { name: price, path: shared/price, version: "1" }
workload:
  order: { item: paper, quantity: 1, price: 4 }
workflow:
  - step: multiply
    tool:
      kind: noop
      result: { item: "{{ workload.order.item }}", total: "{{ workload.order.quantity * workload.order.price }}" }
`;
