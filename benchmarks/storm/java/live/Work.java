package live;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import keyshift.storm.PlanBolt;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.tuple.Tuple;

/**
 * Counts by key, and takes each tuple's service time by sleeping. Where it wakes up late, the next service that begins at once is
 * so much shorter: on a busy machine, too, the mean is the service time.
 */
public class Work extends PlanBolt<byte[]> {
    private static final long AT_ONCE = 300_000L;
    private final String out;
    private final boolean listed;
    private transient int me;
    private transient int pace;
    private transient int setting;
    private transient FileOutputStream log;
    private transient long returned;
    private transient long due;

    public Work(String out, String path, int groups, boolean listed) {
        super(path, groups, "key");
        this.out = out;
        this.listed = listed;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        me = context.getThisTaskIndex();
        setting = -1;
        super.prepare(conf, context, collector);
    }

    @Override
    protected void serve(Tuple tuple) {
        if (tuple.getSourceStreamId().equals("default")) {
            super.serve(tuple);
        } else { // another grouping decides: there is no state that could be elsewhere
            work(tuple);
            done(tuple);
        }
    }

    /** The state: a count in the first eight bytes, and as many more as the setting says. */
    @Override
    protected byte[] update(String key, byte[] state, Tuple tuple) {
        work(tuple);
        int size = 8 + tuple.getIntegerByField("pad");
        pace = tuple.getIntegerByField("pace");
        long count = state == null ? 0 : ByteBuffer.wrap(state).getLong();
        byte[] kept = state != null && state.length == size ? state : new byte[size];
        ByteBuffer.wrap(kept).putLong(count + 1);
        return kept;
    }

    @Override
    protected byte[] merge(byte[] one, byte[] other) {
        ByteBuffer.wrap(one).putLong(ByteBuffer.wrap(one).getLong() + ByteBuffer.wrap(other).getLong());
        return one;
    }

    @Override
    protected double bytesPerSecond() {
        return pace;
    }

    private void work(Tuple tuple) {
        long now = System.nanoTime();
        long begin = now - returned < AT_ONCE ? due : now;
        due = begin + 1000L * tuple.getIntegerByField("us");
        while (now < due) {
            LockSupport.parkNanos(due - now);
            now = System.nanoTime();
        }
        try {
            if (setting != tuple.getIntegerByField("setting")) {
                setting = tuple.getIntegerByField("setting");
                log = new FileOutputStream(Path.of(out, String.valueOf(setting), "served-" + me + ".bin").toFile(), true);
            }
            log.write(ByteBuffer.allocate(32).putInt(tuple.getIntegerByField("number")).putInt(tuple.getIntegerByField("source"))
                .putInt(tuple.getIntegerByField("seq")).putInt(me).putLong(begin).putLong(now).array());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        returned = System.nanoTime();
    }

    @Override
    protected void switched(int epoch, int unitsOut, int unitsIn, boolean done) {
        note("switched", System.nanoTime() + " " + epoch + " " + unitsOut + " " + unitsIn + " " + done + "\n");
    }

    /** The counts as text, for the test that kills workers. */
    @Override
    protected void seen(Map<String, byte[]> states) {
        if (listed) {
            StringBuilder text = new StringBuilder();
            states.forEach((key, state) -> text.append(key).append(' ').append(ByteBuffer.wrap(state).getLong()).append('\n'));
            try {
                Files.writeString(Path.of(out, "states-" + me), text);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private void note(String name, String line) {
        try {
            Files.writeString(Path.of(out, name + "-" + me), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
