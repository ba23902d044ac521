package keyshift.storm;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichSpout;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Any spout, which takes part when the table changes: between two tuples it takes the next table and sends a barrier to all
 * tasks behind it. The next table but one waits until the barrier has been acknowledged, that is, until all spouts have
 * switched and all state has arrived. So a plan of several phases is carried out phase by phase.
 */
public final class PlanSpout implements IRichSpout {
    /** The stream of barriers, for {@code allGrouping}. */
    public static final String STREAM = "keyshift-barrier";

    private static final long serialVersionUID = 1;
    private static final Logger LOG = LoggerFactory.getLogger(PlanSpout.class);
    private final IRichSpout inner;
    private final String path;
    private transient PlanFile file;
    private transient SpoutOutputCollector collector;
    private transient int task;
    private transient int epoch;
    private transient boolean underWay;

    private record Barrier(int epoch) { }

    /** A spout whose tuples a {@link PlanGrouping} of the same path sends. */
    public PlanSpout(IRichSpout inner, String path) {
        this.inner = inner;
        this.path = path;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
        this.collector = collector;
        file = PlanFile.of(path);
        task = context.getThisTaskId();
        epoch = -1;
        inner.open(conf, context, collector);
    }

    @Override
    public void nextTuple() {
        if (!underWay) {
            int next = epoch < 0 ? file.newest() : file.after(epoch); // after a restart the others may be anywhere below
            if (next >= 0 && file.table(next) != null) {
                epoch = next;
                file.use(task, epoch);
                announce();
            }
        }
        if (epoch >= 0) {
            inner.nextTuple();
        }
    }

    private void announce() {
        underWay = true;
        collector.emit(STREAM, new Values(epoch), new Barrier(epoch));
    }

    @Override
    public void ack(Object id) {
        if (id instanceof Barrier barrier) {
            underWay &= barrier.epoch() != epoch;
            LOG.info("table {} is in force everywhere", barrier.epoch());
        } else {
            inner.ack(id);
        }
    }

    @Override
    public void fail(Object id) {
        if (id instanceof Barrier barrier) {
            LOG.warn("the barrier of table {} is sent again", barrier.epoch());
            if (barrier.epoch() == epoch) {
                announce();
            }
        } else {
            inner.fail(id);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        inner.declareOutputFields(declarer);
        declarer.declareStream(STREAM, new Fields("epoch"));
    }

    @Override
    public Map<String, Object> getComponentConfiguration() {
        return inner.getComponentConfiguration();
    }

    @Override
    public void close() {
        inner.close();
    }

    @Override
    public void activate() {
        inner.activate();
    }

    @Override
    public void deactivate() {
        inner.deactivate();
    }
}
