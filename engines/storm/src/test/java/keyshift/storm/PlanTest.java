package keyshift.storm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PlanTest {
    private static final int TASKS = 4;
    private static final int GROUPS = 16;
    private static final int KEYS = 60;
    private static final int TUPLES = 3000;
    private static final Map<Integer, Map<String, Integer>> STATES = new ConcurrentHashMap<>();
    private static final List<Integer> SWITCHED = java.util.Collections.synchronizedList(new ArrayList<>());
    private static final AtomicInteger ACKED = new AtomicInteger();

    @TempDir
    Path folder;

    private void plan(Path file, int epoch, String... tables) throws Exception {
        Path scratch = Files.writeString(folder.resolve("scratch"), "{\"format\":\"keyshift-storm-grouping\",\"version\":2,\"tasks\":"
            + TASKS + ",\"epoch\":" + epoch + ",\"tables\":[" + String.join(",", tables) + "]}");
        Files.move(scratch, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }

    private static String table(int shift, String entries) {
        return "{\"groups\":" + Arrays.toString(IntStream.range(0, GROUPS).map(g -> (g + shift) % TASKS).toArray()) + ",\"entries\":"
            + entries + "}";
    }

    @Test
    void hashIsFieldsGrouping() {
        Table hash = Table.hash(TASKS, GROUPS);
        for (int k = 0; k < 1000; k++) {
            assertEquals(Math.floorMod(List.of("key" + k).hashCode(), TASKS), hash.tasks("key" + k)[0]);
        }
    }

    @Test
    void filesAreReadAndRefused() throws Exception {
        Path path = folder.resolve("plan.json");
        PlanFile file = PlanFile.of(path.toString()).expect(TASKS, GROUPS);
        assertEquals(0, file.newest());
        plan(path, 0, table(0, "{}"), table(1, "{\"a\":[0,2],\"b\":3}"));
        Thread.sleep(250);
        assertEquals(1, file.newest());
        assertArrayEquals(new int[] {0, 2}, file.table(1).tasks("a"));
        assertArrayEquals(new int[] {3}, file.table(1).tasks("b"));
        plan(path, 1, table(1, "{}"), table(2, "{\"a\":[" + TASKS + "]}")); // no such task
        Thread.sleep(250);
        assertEquals(1, file.newest());
        Files.writeString(path, "{\"format\":");
        Thread.sleep(250);
        assertNull(file.table(2));
        Files.writeString(path, "{\"format\":\"keyshift-storm-grouping\",\"version\":1,\"tasks\":4,\"entries\":{\"k\":3}}");
        Thread.sleep(250);
        assertArrayEquals(new int[] {3}, file.table(2).tasks("k"));
        assertEquals(Math.floorMod(31 + "x".hashCode(), GROUPS) % TASKS, file.table(2).tasks("x")[0]);
        plan(path, 1, table(2, "{}"), table(3, "{}")); // not the table 1 that is in force
        Thread.sleep(250);
        assertEquals(2, file.newest());
    }

    @Test
    void movesNameWhatWaits() {
        Table before = new Table(new int[] {0, 1}, Map.of("a", new int[] {0, 1}));
        Table after = new Table(new int[] {1, 1}, Map.of("b", new int[] {2}));
        List<Table.Move> moves = Table.moves(before, after);
        assertEquals(new Table.Move("group 0", 0, 1, true), moves.get(0));
        assertTrue(moves.contains(new Table.Move("key a", 0, 1, false)));
        assertTrue(moves.stream().anyMatch(one -> one.unit().equals("key b") && one.to() == 2 && one.whole()));
    }

    /** Every tuple counts once, and at the end each key's count is where the last table says, through moves and a split key. */
    @Test
    void stateMovesWithTheTable() throws Exception {
        Path path = folder.resolve("live.json");
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("numbers", new PlanSpout(new Numbers(), path.toString()), 2);
        Counting count = new Counting(path.toString());
        count.wire(builder.setBolt("count", count, TASKS), "count", "numbers");
        Config conf = new Config();
        conf.setMaxSpoutPending(50);
        conf.setNumWorkers(2);
        try (LocalCluster cluster = new LocalCluster.Builder().withSupervisors(1).withPortsPerSupervisor(2).build();
                LocalCluster.LocalTopology running = cluster.submitTopology("t", conf, builder.createTopology())) {
            until(() -> ACKED.get() > 500);
            plan(path, 0, table(0, "{}"), table(1, "{}"), table(1, "{\"k0\":[0,1,2],\"k1\":[3]}"));
            until(() -> java.util.Collections.frequency(SWITCHED, 2) == TASKS);
            plan(path, 2, table(1, "{\"k0\":[0,1,2],\"k1\":[3]}"), table(3, "{\"k2\":[1]}"));
            until(() -> java.util.Collections.frequency(SWITCHED, 3) == TASKS && ACKED.get() == 2 * TUPLES);
            Thread.sleep(2500); // the states are seen once a second
        }
        Table last = new Table(IntStream.range(0, GROUPS).map(g -> (g + 3) % TASKS).toArray(), Map.of("k2", new int[] {1}));
        Map<String, Integer> total = new HashMap<>();
        STATES.forEach((task, states) -> states.forEach((key, n) -> {
            assertEquals(last.tasks(key)[0], task, key);
            total.merge(key, n, Integer::sum);
        }));
        assertEquals(KEYS, total.size());
        total.forEach((key, n) -> assertEquals(2 * TUPLES / KEYS, n, key));
    }

    private static void until(java.util.function.BooleanSupplier holds) throws InterruptedException {
        for (int turn = 0; !holds.getAsBoolean(); turn++) {
            assertTrue(turn < 600, "it took more than a minute");
            Thread.sleep(100);
        }
    }

    static class Numbers extends BaseRichSpout {
        private SpoutOutputCollector collector;
        private int next;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void nextTuple() {
            if (next < TUPLES) {
                collector.emit(new Values("k" + next % KEYS), next++);
            }
        }

        @Override
        public void ack(Object id) {
            ACKED.incrementAndGet();
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key"));
        }
    }

    static class Counting extends PlanBolt<Integer> {
        private int task;

        Counting(String path) {
            super(path, GROUPS, "key");
        }

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, org.apache.storm.task.OutputCollector collector) {
            task = context.getThisTaskIndex();
            super.prepare(conf, context, collector);
        }

        @Override
        protected Integer update(String key, Integer state, Tuple tuple) {
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            return state == null ? 1 : state + 1;
        }

        @Override
        protected Integer merge(Integer one, Integer other) {
            return one + other;
        }

        @Override
        protected void seen(Map<String, Integer> states) {
            STATES.put(task, new HashMap<>(states));
        }

        @Override
        protected void switched(int epoch, int unitsOut, int unitsIn, boolean done) {
            if (done) {
                SWITCHED.add(epoch);
            }
        }
    }
}
