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
            return handler((String) request.get("family")).answer(request);
        } catch (Throwable thrown) { // the oracle reports whatever the class under test does
            Map<String, Object> error = new LinkedHashMap<>();
            error.put("type", thrown.getClass().getName());
            error.put("message", thrown.getMessage());
            error.put("at", thrown.getStackTrace().length == 0 ? null : thrown.getStackTrace()[0].toString());
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("error", error);
            return answer;
        }
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
