package keyshift.storm;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Constants;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A bolt with a state for each key, which moves from task to task as the plan says.
 *
 * <p>A task switches to the next table when the barriers of all spouts have come. It then has served all tuples that the old
 * table sent it, and gives the state of every key group that leaves to the key group's new task. The new task holds the
 * tuples of a key group until its state is there, and serves all others meanwhile. Barriers are acknowledged when all has
 * arrived; one that fails makes everything be sent again that may not have come.
 *
 * <p>With {@link #kept} the state survives workers: each task writes all it has to a file once a second, and acknowledges
 * tuples only then. Delivery is at least once, as it is Storm's.
 *
 * @param <S> the state of a key
 */
public abstract class PlanBolt<S extends Serializable> extends BaseRichBolt {
    /** The stream of moved state, from the component to itself. */
    public static final String STATE = "keyshift-state";

    private static final long serialVersionUID = 1;
    private static final Logger LOG = LoggerFactory.getLogger(PlanBolt.class);
    private static final String SENT = "all sent";
    private final String path;
    private final int groups;
    private final String field;
    private String folder;
    private String counts;
    private int window;
    private double pace;

    private transient OutputCollector collector;
    private transient PlanFile file;
    private transient List<Integer> tasks;
    private transient List<Integer> senders;
    private transient int me;
    private transient String component;
    private transient Kept<S> now;
    private transient Map<Integer, Integer> heard;
    private transient List<Tuple> barriers;
    private transient List<Tuple> unwritten;
    private transient Map<String, List<Tuple>> waiting;
    private transient ArrayDeque<Tuple> early;
    private transient List<Tuple> inbox;
    private transient Map<String, long[]> tally;
    private transient boolean sending;
    private transient long counted;

    /** What survives a worker. */
    private static final class Kept<S> implements Serializable {
        private static final long serialVersionUID = 1;
        int previous;
        int epoch;
        final HashMap<String, S> states = new HashMap<>();
        final HashSet<String> missing = new HashSet<>();
        final HashSet<String> parts = new HashSet<>();
        final ArrayList<Parcel> sent = new ArrayList<>();
    }

    /** A unit's state on its way. */
    private record Parcel(String unit, int to, byte[] state) implements Serializable { }

    /** A bolt behind a {@link PlanGrouping} with the same path, key groups and field. */
    protected PlanBolt(String path, int groups, String field) {
        this.path = path;
        this.groups = groups;
        this.field = field;
    }

    /** Keep the state in this folder, which every machine sees under this name. */
    public PlanBolt<S> kept(String folder) {
        this.folder = folder;
        return this;
    }

    /** Write tuples and bytes of each key into this folder, every so many seconds, for {@code keyshift import storm}. */
    public PlanBolt<S> counted(String folder, int seconds) {
        counts = folder;
        window = seconds;
        return this;
    }

    /** Send state at so many bytes a second; 0, the default, at once. */
    public PlanBolt<S> paced(double bytesPerSecond) {
        pace = bytesPerSecond;
        return this;
    }

    /** Connect this bolt: the spout's tuples by the plan, its barriers, and the state that moves. */
    public BoltDeclarer wire(BoltDeclarer declarer, String name, String spout) {
        return declarer.customGrouping(spout, new PlanGrouping(path, groups, field)).allGrouping(spout, PlanSpout.STREAM)
            .directGrouping(name, STATE);
    }

    /** Serve a tuple: the key's new state; the old one is null the first time. Acknowledging is not for this method. */
    protected abstract S update(String key, S state, Tuple tuple);

    /** Two partial states of a key that several tasks have served. */
    protected abstract S merge(S one, S other);

    /** Bytes a second at which state leaves this task; 0: no limit. */
    protected double bytesPerSecond() {
        return pace;
    }

    /** Called once a second with all states of this task. */
    protected void seen(Map<String, S> states) { }

    /** Called when this task has switched to a table, and when the state of all that came with it is there. */
    protected void switched(int epoch, int unitsOut, int unitsIn, boolean done) { }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        component = context.getThisComponentId();
        tasks = context.getComponentTasks(component).stream().sorted().toList();
        me = tasks.indexOf(context.getThisTaskId());
        file = PlanFile.of(path).expect(tasks.size(), groups);
        senders = context.getThisSources().keySet().stream().filter(one -> one.get_streamId().equals(PlanSpout.STREAM))
            .flatMap(one -> context.getComponentTasks(one.get_componentId()).stream()).toList();
        heard = new HashMap<>();
        barriers = new ArrayList<>();
        unwritten = new ArrayList<>();
        waiting = new LinkedHashMap<>();
        early = new ArrayDeque<>();
        inbox = new ArrayList<>();
        tally = new HashMap<>();
        counted = System.nanoTime();
        now = folder == null ? null : restored();
        if (now == null) {
            now = new Kept<>();
            now.epoch = now.previous = file.newest();
        }
    }

    @Override
    public final void execute(Tuple tuple) {
        if (tuple.getSourceStreamId().equals(Constants.SYSTEM_TICK_STREAM_ID)) {
            tick();
        } else if (tuple.getSourceStreamId().equals(PlanSpout.STREAM)) {
            barrier(tuple);
        } else if (tuple.getSourceStreamId().equals(STATE)) {
            arrived(tuple);
        } else {
            serve(tuple);
        }
    }

    // Tuples ----------------------------------------------------------------------------------------------------------

    /** Serve a tuple if its key is here; else it waits for the state, or for the table by which it was sent. */
    protected void serve(Tuple tuple) {
        String key = String.valueOf(tuple.getValueByField(field));
        if (!Table.among(table().tasks(key), me)) {
            early.add(tuple);
            return;
        }
        String unit = now.missing.isEmpty() ? "" : unitOf(key);
        if (now.missing.contains(unit)) {
            waiting.computeIfAbsent(unit, one -> new ArrayList<>()).add(tuple);
        } else {
            apply(key, tuple);
        }
    }

    /** Serve a tuple now, wherever its key belongs. */
    protected final void apply(String key, Tuple tuple) {
        now.states.put(key, update(key, now.states.get(key), tuple));
        if (counts != null) {
            tally.computeIfAbsent(key, one -> new long[1])[0]++;
        }
        done(tuple);
    }

    /** Acknowledge a tuple, with `kept` when its effect is written. */
    protected final void done(Tuple tuple) {
        if (folder == null) {
            acknowledge(tuple);
        } else {
            unwritten.add(tuple);
        }
    }

    private synchronized void acknowledge(Tuple tuple) {
        collector.ack(tuple);
    }

    // Tables ----------------------------------------------------------------------------------------------------------

    private Table table() {
        return file.table(now.epoch);
    }

    private String unitOf(String key) {
        Table before = file.table(now.previous);
        return Table.unit(before == null ? table() : before, table(), key);
    }

    /** Whether all state of the table in force has come, and all that was to go has been sent. */
    private boolean complete() {
        return now.missing.isEmpty() && now.parts.isEmpty() && !sending;
    }

    private void barrier(Tuple tuple) {
        int epoch = tuple.getIntegerByField("epoch");
        heard.merge(tuple.getSourceTask(), epoch, Math::max);
        barriers.add(tuple);
        if (epoch <= now.epoch && !sending && !now.sent.isEmpty()) {
            send(); // it failed, so that somebody may lack something
        }
        advance();
    }

    /** Switch while all spouts have: table after table, each only when the one before is complete. */
    private void advance() {
        while (complete()) {
            int agreed = senders.stream().mapToInt(one -> heard.getOrDefault(one, -1)).min().orElse(-1);
            int next = file.after(now.epoch);
            if (next < 0 || next > agreed) {
                break;
            }
            change(next);
        }
        settle();
    }

    private void change(int epoch) {
        List<Table.Move> moves = Table.moves(table(), file.table(epoch));
        now.previous = now.epoch;
        now.epoch = epoch;
        now.sent.clear();
        Map<String, Integer> leaving = new LinkedHashMap<>();
        for (Table.Move one : moves) {
            if (one.from() == me) {
                leaving.put(one.unit(), one.to());
            } else if (one.to() == me && one.whole()) {
                now.missing.add(one.unit());
            } else if (one.to() == me) {
                now.parts.add(one.from() + " " + one.unit());
            }
        }
        int coming = now.missing.size() + now.parts.size();
        LOG.info("table {}: {} units leave, {} come", epoch, leaving.size(), coming);
        switched(epoch, leaving.size(), coming, false);
        sending = true;
        pack(leaving);
        List<Tuple> came = inbox;
        inbox = new ArrayList<>();
        came.forEach(this::arrived);
        if (folder != null) {
            write();
        }
        send();
    }

    /** Put the states of all keys that are not this task's any more into parcels: one a unit, in the plan's order. */
    private void pack(Map<String, Integer> leaving) {
        Map<String, HashMap<String, S>> parcels = new LinkedHashMap<>();
        leaving.keySet().forEach(unit -> parcels.put(unit, new HashMap<>()));
        now.states.entrySet().removeIf(one -> {
            HashMap<String, S> parcel = parcels.get(unitOf(one.getKey()));
            if (parcel != null) {
                parcel.put(one.getKey(), one.getValue());
            }
            return parcel != null;
        });
        parcels.forEach((unit, states) -> now.sent.add(new Parcel(unit, leaving.get(unit), bytes(states))));
    }

    /** Send parcels one after another, from a thread of their own: tuples are served meanwhile. */
    private void send() {
        sending = true;
        int epoch = now.epoch;
        List<Parcel> parcels = List.copyOf(now.sent);
        double bytesPerSecond = bytesPerSecond();
        Thread mover = new Thread(() -> {
            try {
                for (Parcel one : parcels) {
                    if (bytesPerSecond > 0) {
                        Thread.sleep((long) (1000 * one.state.length / bytesPerSecond));
                    }
                    emit(one.to, new Values(epoch, me, one.unit, one.state));
                }
                emit(me, new Values(epoch, me, SENT, new byte[0]));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }, component + "-state-" + me);
        mover.setDaemon(true);
        mover.start();
    }

    private synchronized void emit(int to, Values values) {
        collector.emitDirect(tasks.get(to), STATE, values);
    }

    @SuppressWarnings("unchecked")
    private void arrived(Tuple tuple) {
        int epoch = tuple.getIntegerByField("epoch");
        String unit = tuple.getStringByField("unit");
        if (epoch > now.epoch) {
            inbox.add(tuple);
            return;
        }
        acknowledge(tuple);
        if (unit.equals(SENT)) {
            sending = false;
            ready();
            advance();
            return;
        }
        if (!now.missing.remove(unit) && !now.parts.remove(tuple.getInteger(1) + " " + unit)) {
            return; // sent again, and here already
        }
        ((Map<String, S>) object(tuple.getBinaryByField("state")))
            .forEach((key, state) -> now.states.merge(key, state, this::merge));
        List<Tuple> held = waiting.remove(unit);
        if (held != null) {
            held.forEach(this::serve);
        }
        ready();
        advance();
    }

    /** When all has come and gone: tuples that came early are looked at again. */
    private void ready() {
        if (!complete()) {
            return;
        }
        switched(now.epoch, 0, 0, true);
        ArrayDeque<Tuple> again = early;
        early = new ArrayDeque<>();
        again.forEach(this::serve);
    }

    /** Acknowledge barriers of tables that are complete here. */
    private void settle() {
        if (complete()) {
            barriers.removeIf(one -> {
                boolean inForce = one.getIntegerByField("epoch") <= now.epoch;
                if (inForce) {
                    done(one);
                }
                return inForce;
            });
        }
    }

    // Files -----------------------------------------------------------------------------------------------------------

    private void tick() {
        advance();
        seen(now.states);
        if (folder != null && !unwritten.isEmpty()) {
            write();
        }
        if (counts != null && System.nanoTime() - counted >= window * 1_000_000_000L) {
            count();
        }
    }

    private void write() {
        replace(Path.of(folder, component + "-" + me + ".state"), bytes(now));
        unwritten.forEach(this::acknowledge);
        unwritten.clear();
    }

    @SuppressWarnings("unchecked")
    private Kept<S> restored() {
        Path kept = Path.of(folder, component + "-" + me + ".state");
        try {
            return Files.exists(kept) ? (Kept<S>) object(Files.readAllBytes(kept)) : null;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void count() {
        double seconds = (System.nanoTime() - counted) / 1e9;
        Map<String, Object> keys = new HashMap<>();
        Set<String> all = new HashSet<>(now.states.keySet());
        all.addAll(tally.keySet());
        for (String key : all) {
            S state = now.states.get(key);
            long size = state == null ? 0 : bytes(new HashMap<>(Map.of(key, state))).length;
            keys.put(key, List.of(tally.getOrDefault(key, new long[1])[0], size));
        }
        Map<String, Object> content = new LinkedHashMap<>();
        content.put("format", "keyshift-storm-counts");
        content.put("version", 1);
        content.put("component", component);
        content.put("task", me);
        content.put("tasks", tasks.size());
        content.put("epoch", now.epoch);
        content.putAll(table().asRecord());
        content.put("seconds", seconds);
        content.put("keys", keys);
        replace(Path.of(counts, component + "-" + me + ".json"), JSONValue.toJSONString(content).getBytes());
        tally.clear();
        counted = System.nanoTime();
    }

    private static void replace(Path to, byte[] content) {
        try {
            Files.createDirectories(to.getParent());
            Path scratch = Files.write(to.resolveSibling(to.getFileName() + ".tmp"), content);
            Files.move(scratch, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] bytes(Object of) {
        try (ByteArrayOutputStream to = new ByteArrayOutputStream(); ObjectOutputStream out = new ObjectOutputStream(to)) {
            out.writeObject(of);
            out.flush();
            return to.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The topology's classes are known to the thread's class loader. */
    private static Object object(byte[] of) {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(of)) {
            @Override
            protected Class<?> resolveClass(ObjectStreamClass named) throws IOException, ClassNotFoundException {
                try {
                    return Class.forName(named.getName(), false, Thread.currentThread().getContextClassLoader());
                } catch (ClassNotFoundException e) {
                    return super.resolveClass(named);
                }
            }
        }) {
            return in.readObject();
        } catch (IOException | ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declareStream(STATE, true, new Fields("epoch", "from", "unit", "state"));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return new HashMap<>(Map.of("topology.tick.tuple.freq.secs", 1));
    }
}
