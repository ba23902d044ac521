package live;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Sends the tuples of a file, each when it is due or as fast as so many that are not acknowledged yet allow, and notes when each
 * was acknowledged. The file can be sent again, as a Kafka partition can: what failed, and what was not acknowledged when a worker
 * died, is.
 */
public class Source extends BaseRichSpout {
    static final Fields FIELDS = new Fields("key", "number", "setting", "source", "seq", "us", "pad", "pace");
    /** Streams with a partial key grouping each, since it counts from its start on: a setting takes one that is new. */
    static final int PARTIAL = 64;
    private static final long LOOK = 100_000_000L;
    private final String folder;
    private transient SpoutOutputCollector collector;
    private transient int me;
    private transient long looked;
    private transient String seen;
    private transient Map<?, ?> setting;
    private transient long start;
    private transient long stop;
    private transient int limit;
    private transient ByteBuffer stream;
    private transient int next;
    private transient int left;
    private transient BitSet acked;
    private transient Map<Integer, long[]> pending;
    private transient ArrayDeque<Integer> again;
    private transient FileOutputStream log;

    record Id(int setting, int seq) { }

    public Source(String folder) {
        this.folder = folder;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        me = context.getThisTaskIndex();
        seen = "";
    }

    private int whole(String name) {
        return ((Number) setting.get(name)).intValue();
    }

    private void look() throws IOException {
        looked = System.nanoTime();
        Path control = Path.of(folder, "control.json");
        if (setting == null) {
            Files.writeString(Path.of(folder, "ready-" + me), "");
        }
        String text = Files.exists(control) ? Files.readString(control) : "";
        if (text.equals(seen) || !(JSONValue.parse(text) instanceof Map<?, ?> read)) {
            return;
        }
        seen = text;
        setting = read;
        start = ((Number) setting.get("start")).longValue();
        stop = start + ((Number) setting.get("lasts")).longValue();
        limit = whole("pending");
        Path here = Path.of(folder, String.valueOf(whole("id")));
        stream = ByteBuffer.wrap(Files.readAllBytes(here.resolve("stream-" + me + ".bin"))).order(ByteOrder.LITTLE_ENDIAN);
        next = 0;
        pending = new HashMap<>();
        again = new ArrayDeque<>();
        acked = new BitSet();
        Path noted = here.resolve("acked-" + me + ".bin");
        if (Files.exists(noted)) { // a worker died: what it had acknowledged is done
            ByteBuffer before = ByteBuffer.wrap(Files.readAllBytes(noted));
            for (int at = 0; at + 32 <= before.capacity(); at += 32) {
                acked.set(before.getInt(at));
            }
        }
        left = stream.capacity() / 12 - acked.cardinality();
        log = new FileOutputStream(noted.toFile(), true);
    }

    @Override
    public void nextTuple() {
        long now = System.nanoTime();
        try {
            if (now - looked > LOOK) {
                look();
            }
            if (setting == null || now < start || left < 0) {
                return;
            }
            if (limit > 0 && now > stop) {
                left = pending.size();
                next = stream.capacity() / 12;
            }
            if (left == 0) {
                left = -1;
                Files.writeString(Path.of(folder, String.valueOf(whole("id")), "done-" + me), "");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Integer failed = again.poll();
        if (failed != null) {
            send(failed, now);
            return;
        }
        while (next < stream.capacity() / 12 && acked.get(next)) {
            next++;
        }
        if (next < stream.capacity() / 12 && (limit > 0 ? pending.size() < limit : now >= start + stream.getLong(12 * next))) {
            send(next++, now);
        }
    }

    private void send(int seq, long now) {
        long due = limit > 0 ? now - start : stream.getLong(12 * seq);
        long[] times = pending.computeIfAbsent(seq, one -> new long[] {due, 0, 0});
        times[1] = now - start;
        times[2]++;
        int key = stream.getInt(12 * seq + 8);
        collector.emit((String) setting.get("stream"),
            new Values("k" + key, key, whole("id"), me, seq, whole("us"), whole("pad"), whole("pace")), new Id(whole("id"), seq));
    }

    @Override
    public void ack(Object id) {
        Id one = (Id) id;
        if (setting == null || one.setting != whole("id")) {
            return;
        }
        long[] times = pending.remove(one.seq);
        if (times != null) {
            acked.set(one.seq);
            left--;
            ByteBuffer row = ByteBuffer.allocate(32).putInt(one.seq).putInt((int) times[2]).putLong(times[0]).putLong(times[1])
                .putLong(System.nanoTime() - start);
            try {
                log.write(row.array());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    @Override
    public void fail(Object id) {
        Id one = (Id) id;
        if (setting != null && one.setting == whole("id") && pending.containsKey(one.seq)) {
            again.add(one.seq);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        for (String stream : new String[] {"default", "fields", "shuffle"}) {
            declarer.declareStream(stream, FIELDS);
        }
        for (int i = 0; i < PARTIAL; i++) {
            declarer.declareStream("pkg" + i, FIELDS);
        }
    }
}
