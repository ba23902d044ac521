import java.io.DataOutputStream;
import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Keys 0..n-1 of a kind, keyed at each of the parallelisms: each subtask writes down which keys it got. */
public class KeyedOutput {
    static Object key(String kind, long i) {
        switch (kind) {
            case "int": return (int) (i * 2654435761L);
            case "long": return i * 6364136223846793005L + 1442695040888963407L;
            default: return "key-" + i + (i % 7 == 0 ? "\u00e9" : i % 11 == 0 ? "\ud83d\ude00" : "");
        }
    }

    static class Note<K> extends KeyedProcessFunction<K, Long, Long> {
        final String name;
        transient DataOutputStream out;

        Note(String name) { this.name = name; }

        @Override public void open(OpenContext context) throws Exception {
            int subtask = getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
            out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(name + "-" + subtask)));
        }

        @Override public void processElement(Long i, Context context, Collector<Long> ignored) throws Exception {
            out.writeInt(i.intValue());
        }

        @Override public void close() throws Exception { if (out != null) out.close(); }
    }

    @SuppressWarnings("unchecked")
    static <K> void branch(DataStream<Long> keys, String kind, TypeInformation<K> type, int p, int most, String folder) {
        KeySelector<Long, K> selector = i -> (K) key(kind, i);
        keys.keyBy(selector, type).process(new Note<K>(folder + "/" + kind + "-" + most + "-" + p)).returns(Types.LONG)
            .name("parallelism " + p).setParallelism(p).setMaxParallelism(most)
            .sinkTo(new DiscardingSink<>()).setParallelism(p);
    }

    public static void main(String[] words) throws Exception {
        long n = Long.parseLong(words[0]);
        int most = Integer.parseInt(words[1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        DataStream<Long> keys = env.fromSequence(0, n - 1).setParallelism(1);
        for (int p = 1; p <= Integer.parseInt(words[2]); p++) {
            branch(keys, "int", Types.INT, p, most, words[3]);
            branch(keys, "long", Types.LONG, p, most, words[3]);
            branch(keys, "string", Types.STRING, p, most, words[3]);
        }
        env.execute("keyed output, max parallelism " + most);
    }
}
