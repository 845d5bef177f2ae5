package oracle;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** JSON Lines in, JSON Lines out, in order; an empty line flushes. */
public final class Main {
    private static final Map<String, Handler> HANDLERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        BufferedWriter out = new BufferedWriter(
            new OutputStreamWriter(new FileOutputStream(FileDescriptor.out), StandardCharsets.UTF_8), 1 << 16);
        System.setOut(System.err); // loggers must not mix with the answers
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (!line.isEmpty()) {
                out.write(Json.write(answer(line)));
                out.write('\n');
            }
            if (line.isEmpty() || !in.ready()) {
                out.flush();
            }
        }
        out.flush();
    }

    private static Object answer(String line) {
        try {
            Map<String, Object> request = Json.object(Json.parse(line));
            Handler handler = handler((String) request.get("family"));
            return answer(handler, request);
        } catch (Throwable thrown) { // the oracle reports whatever the class under test does
            return error(thrown.getClass().getName(), thrown.getMessage(),
                thrown.getStackTrace().length == 0 ? null : thrown.getStackTrace()[0].toString());
        }
    }

    /** On a thread of its own when the request has a limit: some released classes never end on some input. */
    @SuppressWarnings({"deprecation", "removal"}) // nothing else ends a thread that asks nobody
    private static Object answer(Handler handler, Map<String, Object> request) throws Throwable {
        if (request.get("limitMs") == null) {
            return handler.answer(request);
        }
        Object[] result = new Object[2];
        Thread worker = new Thread(() -> {
            try {
                result[0] = handler.answer(request);
            } catch (Throwable thrown) {
                result[1] = thrown;
            }
        });
        worker.setDaemon(true);
        worker.start();
        worker.join((Long) request.get("limitMs"));
        if (worker.isAlive()) {
            worker.stop();
            return error("oracle.Timeout", "no answer in " + request.get("limitMs") + " ms", null);
        }
        if (result[1] != null) {
            throw (Throwable) result[1];
        }
        return result[0];
    }

    private static Object error(String type, String message, String at) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("type", type);
        error.put("message", message);
        error.put("at", at);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("error", error);
        return answer;
    }

    private static Handler handler(String family) throws Throwable {
        Handler known = HANDLERS.get(family);
        if (known == null) {
            String name = "oracle." + Character.toUpperCase(family.charAt(0)) + family.substring(1);
            try {
                known = (Handler) Class.forName(name).getDeclaredConstructor().newInstance();
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
            HANDLERS.put(family, known);
        }
        return known;
    }

    private Main() {
    }
}
